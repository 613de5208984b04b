def get_transform(output, context):
    return output.upper()


def double(output, context):
    return output * 2
