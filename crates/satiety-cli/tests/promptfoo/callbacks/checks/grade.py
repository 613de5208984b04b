def get_assert(output, context):
    good = "bad" not in output
    return {
        "pass": good,
        "score": 0.9 if good else 0.1,
        "reason": "graded",
        "named_scores": {"tone": 0.8},
        "component_results": [{"pass": good, "score": 1.0, "reason": "part"}],
    }
