def generate():
    return [
        {"description": "from Python", "vars": {"topic": word}, "assert": [{"type": "contains", "value": word}]}
        for word in ["dogs", "birds"]
    ]


def configured(config):
    return [
        {"description": "configured", "vars": {"topic": word}, "assert": [{"type": "icontains", "value": "x"}]}
        for word in config["words"]
    ]
