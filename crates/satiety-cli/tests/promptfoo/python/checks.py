from helper import WANTED


def get_assert(output, context):
    print("noise on standard output")
    return output == WANTED


def long_enough(output, context):
    return len(output) >= context["config"]["least"]


def half(output, context):
    return {"pass": True, "score": 0.5, "reason": "half"}


def snake(output, context):
    return {"pass_": True, "score": 1, "reason": "ok", "named_scores": {"depth": 0.5}}
