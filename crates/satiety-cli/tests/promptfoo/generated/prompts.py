def make(context):
    return "py " + context["vars"]["topic"]


def configured(context):
    return {"prompt": [{"role": "user", "content": "py " + context["vars"]["topic"]}]}
