"""An explanation as text and as plain data."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from slotwise.explanation import Completion, Explanation, WhatIf
from slotwise.model.schedule import Reason
from slotwise.report.console import answer_text
from slotwise.words import amount, counted

__all__ = ["as_data", "as_text"]

_RULES = {
    Reason.NEVER_FITS: "No machine, or not the whole cluster, holds its smallest size.",
    Reason.HORIZON_ENDS: "Even alone on the empty cluster it could not finish by the horizon.",
    Reason.NO_TIME_LEFT: "By the time it could finish at the earliest it is worth nothing any more.",
    Reason.PRICED_OUT: "At each slot in which it could finish, the cheapest plan costs at least what the job is worth.",
    Reason.MACHINE_LOST: "A machine of its plan was lost, and no other plan is left.",
}
_NO_ROOM = "As long as finishing is worth anything, what is free trains too little: no price would have helped."
_MOST_WAITS = 12


def _without_room(found: Explanation) -> bool:
    """Whether no price at all lets a job in that is worth something only for some time.

    What is free until a slot trains too little if it does until a later one: the last slot of any worth tells.
    """
    late = found.completions[-1:]
    return found.record.reason is Reason.PRICED_OUT and bool(late) and late[0].cost is None


def as_text(found: Explanation, slot_seconds: float) -> str:
    """Return an explanation in words.

    Parameters
    ----------
    found : Explanation
        Of one job.
    slot_seconds : float
        Length of a slot.
    """
    record, job = found.record, found.job
    lines = [f"{job.id}, arrived in slot {record.arrival}, policy {found.policy}: {_answer(found)}"]
    if record.reason is not None:
        rule = _NO_ROOM if _without_room(found) else _RULES.get(record.reason, "")
        lines += [f"reason: {record.reason}. {rule}".rstrip(), f"  {record.detail}"]
    if found.completions:
        lines += ["", *_completions(found.completions)]
        if len(found.completions) < found.completion_slots:
            lines.append(
                f"({len(found.completions)} of {found.completion_slots} shown, evenly over the slots in which it could "
                "finish and be worth something: each is planned for by itself, which takes time)"
            )
    if found.plan is not None:
        plan = found.plan
        lines += [
            "",
            f"best plan: {counted(len(plan.schedule.slots), 'slot')}, ends in slot {plan.schedule.completion}, worth "
            f"{amount(plan.utility)}, costs {amount(plan.cost)}, payoff {amount(plan.payoff)}",
        ]
        if found.dearest:
            parts = ", ".join(f"{name} {share:.0%}" for name, share in found.dearest)
            lines.append(f"what it pays for: {parts}; most in slot {found.dearest_slot}")
    if found.machine_cost is not None:
        cost = amount(found.machine_cost)
        lines += ["", f"at the prices of that moment an empty machine cost {cost} a slot far ahead, less in near ones"]
    if record.reason in (Reason.PRICED_OUT, Reason.NO_TIME_LEFT):
        lines += ["", "it would have been let in, at the prices of that moment and all else equal,"]
        told = [_change(change, slot_seconds) for change in found.changes]
        lines += [f"  - {text}" for text in told if text] or [
            "  with no value up to 1,000 times its own, no later target and no smaller workload"
        ]
    if found.waits:
        lines.append("")
        shown = found.waits if len(found.waits) <= _MOST_WAITS else found.waits[-_MOST_WAITS:]
        if len(shown) < len(found.waits):
            lines.append(f"the last {len(shown)} of {len(found.waits)} times that it waited:")
        for wait in shown:
            where = f"slot {wait.first}" if wait.first == wait.last else f"slots {wait.first} to {wait.last}"
            lines.append(f"{where}: {wait.reason}; {wait.detail}")
    return "\n".join(lines)


def _answer(found: Explanation) -> str:
    record = found.record
    if record.reason is not None:
        return answer_text(record.reason, record.promised, record.started)
    if record.promised is not None:
        return f"admitted, promised to end in slot {record.promised}, worth {amount(record.promised_utility or 0.0)}"
    waited = sum(wait.last - wait.first + 1 for wait in found.waits)
    sizes = ""
    if found.workers:
        low, high = min(found.workers), max(found.workers)
        sizes = f" with {counted(low, 'worker')}" if low == high else f" with {low} to {high} workers"
    ran = f"ran in {counted(record.active_slots, 'slot')}{sizes}, waited in {waited}"
    if record.completed is not None:
        return f"finished in slot {record.completed}, earned {amount(record.utility)}; {ran}"
    trained = "" if found.trained is None else f", {found.trained:.0%} trained when the last slot opened"
    return f"not finished by the horizon ({found.horizon}){trained}; {ran}"


def _completions(all_of_them: Sequence[Completion]) -> list[str]:
    worths = [amount(one.utility) for one in all_of_them]
    width = max(12, *map(len, worths))
    lines = [f"finishing by   {'worth':<{width}} costs at least   pays"]
    for one, worth in zip(all_of_them, worths, strict=True):
        cost, pays = ("too little room", "-") if one.cost is None else (amount(one.cost), _pays(one.utility, one.cost))
        lines.append(f"slot {one.slot:<9} {worth:<{width}} {cost:<16} {pays}")
    return lines


def _pays(utility: float, cost: float) -> str:
    return "yes" if utility > cost * (1.0 + 1e-9) else "no"


def _change(change: WhatIf, slot_seconds: float) -> str:
    match change.change:
        case "value":
            factor = change.needed / change.was
            value, own = amount(change.needed), amount(change.was)
            return f"if its value were {value} in place of {own} ({amount(factor, 3)} times)"
        case "target":
            later = (change.needed - change.was) * slot_seconds
            return (
                f"if its target were {counted(change.needed, 'slot')} after arrival in place of {amount(change.was)} "
                f"({later / 3600:.3g} h later)"
            )
        case _:
            return (
                f"if it had {change.needed:,.0f} samples to train in all, in place of {change.was:,.0f} "
                f"({change.needed / change.was:.0%})"
            )


def as_data(found: Explanation) -> dict[str, Any]:
    """Return an explanation as plain data, for JSON."""
    record = found.record
    plan = found.plan
    return {
        "job": record.id,
        "policy": found.policy,
        "arrival": record.arrival,
        "admitted": record.let_in,
        "reason": None if record.reason is None else str(record.reason),
        "detail": record.detail,
        "promised": record.promised,
        "started": record.started,
        "completed": record.completed,
        "completion_slots": found.completion_slots,
        "completions": [{"slot": c.slot, "utility": c.utility, "cost": c.cost} for c in found.completions],
        "plan": None
        if plan is None
        else {
            "slots": list(plan.schedule.slots),
            "completion": plan.schedule.completion,
            "utility": plan.utility,
            "cost": plan.cost,
            "payoff": plan.payoff,
        },
        "dearest": dict(found.dearest),
        "dearest_slot": found.dearest_slot,
        "changes": [{"change": c.change, "was": c.was, "needed": c.needed} for c in found.changes],
        "machine_cost": found.machine_cost,
        "workers": found.workers,
        "trained": found.trained,
        "waits": [{"first": w.first, "last": w.last, "reason": str(w.reason), "detail": w.detail} for w in found.waits],
    }
