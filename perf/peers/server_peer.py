"""The specification's scoring of a conversation behind FastAPI, as a typical first implementation.

    python -m uvicorn --app-dir perf/peers server_peer:app --port 8000 --workers 2 --log-level warning
"""

import re

from fastapi import FastAPI
from pydantic import BaseModel, Field

VAGUE = ("consider", "think about", "explore", "look into", "investigate")
HEDGES = ("maybe", "possibly", "might", "could potentially")
VERBS = set(
    "run write create open deploy send test build merge ship implement add remove update fix configure".split()
)
ARTIFACT = re.compile(r"\S+/\S+|https?://|\bPR\b|\bbranch\b|\w+\.\w{2,4}\b")
BLOCKERS = (
    "blocked", "blocker", "waiting on", "depends on", "need access", "need permission",
    "can't proceed", "prerequisite", "missing",
)


class Outputs(BaseModel):
    claims: list[str] = Field(default_factory=list)
    next_actions: list[str] = Field(default_factory=list)
    open_questions: list[str] = Field(default_factory=list)


class Round(BaseModel):
    round: int
    outputs: Outputs = Field(default_factory=Outputs)


class Conversation(BaseModel):
    rounds: list[Round]


class Body(BaseModel):
    conversation: Conversation


app = FastAPI()


def normalize(claim: str) -> str:
    return " ".join(claim.lower().split()).rstrip(".!?")


def jaccard(a: frozenset, b: frozenset) -> float:
    union = len(a | b)
    return len(a & b) / union if union else 1.0


def is_specific(action: str) -> bool:
    words = action.lower().split()
    if action.lower().startswith(VAGUE) or any(hedge in action.lower() for hedge in HEDGES):
        return False
    return any(word.strip(".,:;") in VERBS for word in words) or bool(ARTIFACT.search(action))


def readiness(now: Outputs, before: Outputs | None) -> tuple[float, float, bool, float]:
    specific = sum(is_specific(action) for action in now.next_actions)
    actions = 0.0 if not now.next_actions else 0.3 if specific == 0 else 0.7 if specific == 1 else 1.0
    if not now.open_questions:
        questions = 1.0
    elif before is None:
        questions = 0.3
    else:
        change = len(now.open_questions) - len(before.open_questions)
        questions = 0.7 if change < 0 else 0.4 if change == 0 else 0.1
    said = " ".join(now.open_questions + now.next_actions).lower()
    blocked = any(word in said for word in BLOCKERS)
    return actions, questions, blocked, 0.5 * actions + 0.3 * questions + 0.2 * (not blocked)


def level(value: float, low: float, high: float) -> str:
    return "LOW" if value < low else "HIGH" if value >= high else "MEDIUM"


@app.post("/v1/score")
def score(body: Body) -> dict:
    seen: set[str] = set()
    tokens: list[frozenset] = []
    peak = fuzzy_peak = low = 0
    signal, rate, ready, best = "CONTINUE", 1.0, 0.0, 0.0
    rates, detail = (1.0, 1.0), (0.0, 0.0, False)
    before = None
    course = []
    for turn in body.conversation.rounds:
        claims = {normalize(claim) for claim in turn.outputs.claims}
        new = [claim for claim in claims if claim not in seen]
        fuzzy = 0
        for claim in claims:
            words = frozenset(claim.split())
            if max((jaccard(words, other) for other in tokens), default=0.0) < 0.6:
                fuzzy += 1
        for claim in new:
            seen.add(claim)
            tokens.append(frozenset(claim.split()))
        peak, fuzzy_peak = max(peak, len(new)), max(fuzzy_peak, fuzzy)
        rates = len(new) / max(peak, 1), fuzzy / max(fuzzy_peak, 1)
        rate = min(rates)
        *detail, ready = readiness(turn.outputs, before)
        blocked = detail[2]
        before = turn.outputs
        low, best = (low + 1, max(best, ready)) if rate < 0.15 else (0, 0.0)
        if low < 2:
            signal = "CONTINUE"
        elif ready < 0.4 or blocked or (low >= 3 and best < 0.7):
            signal = "ESCALATE"
        else:
            signal = "SHIP"
        course.append({"round": turn.round, "novelty_rate": rate, "action_readiness": ready, "signal": signal})
    return {
        "score": 1 - rate,
        "components": {
            "novelty_rate": rate,
            "novelty_rate_L0": rates[0],
            "novelty_rate_L1": rates[1],
            "action_readiness": ready,
            "action_readiness_detail": {
                "next_actions_score": detail[0],
                "open_questions_score": detail[1],
                "blocker_score": float(not detail[2]),
            },
        },
        "novelty_by_round": course,
        "stop_recommendation": {
            "signal": signal,
            "novelty_classification": level(rate, 0.15, 0.5),
            "readiness_classification": level(ready, 0.4, 0.7),
            "k_consecutive_low_novelty": low,
            "rationale": f"Novelty has been low for {low} consecutive rounds; action readiness is {ready:.2f}.",
        },
    }


@app.get("/healthz")
def healthz() -> dict:
    return {"status": "ok"}
