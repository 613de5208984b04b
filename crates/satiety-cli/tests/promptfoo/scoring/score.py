def get_score(named_scores, context):
    total = sum(named_scores.values())
    return {"pass": total >= 2, "score": total / 2, "reason": "sum of scores"}
