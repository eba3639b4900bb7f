"""Which runs belong together, and which must not be averaged.

A group is one agent at one replay ratio: runs that differ only in task and seed. Agents of one name
with other settings are other agents, and are called by what differs; but how all runs of a replay
ratio were run alike (their resets, their warm-up) names none of them. Runs under other rules
(protocol, version of the simulator) are refused, or kept apart, never merged.
"""

import json
from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal, NamedTuple

from dualac.analysis.data.frame import RunRecord, agree, furthest
from dualac.errors import DataError
from dualac.runs.versions import ADDED

Unlike = Literal["refuse", "separate"]

# Of a spec: what names the cell of a grid, how far it goes and how often it writes. The rest is
# what the agent is.
NOT_THE_AGENT = (
    "part", "name", (
        "task"
    ), "seed", "steps", (
        "eval_every"
    ), "log_every", "checkpoint_every", "protocol", "pack", "replay_ratio",
)  # fmt: skip
# Of a protocol and of the versions: what each suite's scores depend on.
FOR_ALL = ("action_repeat", "time_limit", "eval_episodes")
RULES = {
    "dmc": FOR_ALL,
    "metaworld": (*FOR_ALL, "metaworld_cap", "success"),
    "myosuite": (*FOR_ALL, "myosuite_cap", "myosuite_termination", "success"),
    "gym": (*FOR_ALL, "success"),
}
SIMULATORS = {
    "dmc": ("dm_control", "mujoco"),
    "metaworld": ("metaworld", "mujoco"),
    "myosuite": ("myosuite", "mujoco"),
    "gym": ("gymnasium", "mujoco"),
}
PROTOCOL = {"time_limit": 0, **ADDED["Protocol"]}  # its defaults
MOST_NAMED = 3  # settings that a label names before it says how many more there are

Rules = tuple[tuple[str, Any], ...]
Agent = tuple[
    str, str, Rules, int
    # its name, its settings as JSON, the rules it was played by where they are unusual, its replay
    # ratio
]
Rows = Mapping[
    str, dict[str, Any]
]  # the table of algorithms: what `settings` of a run without any override is, by name


class Group(NamedTuple):
    """One agent at one replay ratio."""

    label: str
    name: str
    agent: str
    """the label without the replay ratio: what keeps its colour"""
    replay_ratio: int
    settings: dict[str, Any]
    """what the agent is, by path"""
    overrides: dict[str, Any]
    """where it departs from the row of its name"""
    runs: list[RunRecord]

    @property
    def tasks(self) -> set[str]:
        return {run.task for run in self.runs}


class Grouped(NamedTuple):
    groups: list[Group]
    refused: list[tuple[RunRecord, str]]
    """runs that were left out, with the reason"""
    notes: list[str]
    apart: Sequence[str] = ()
    """groups under other rules than the usual"""


def group(
    runs: Iterable[RunRecord],
    unlike: Unlike = "refuse",
    rows: Rows | None = None,
    usual: Mapping[str, Rules] | None = None,
) -> Grouped:
    """Group runs by agent and replay ratio, each cell of task and seed once.

    With `rows`, an agent that differs from the row of its name is labelled by the difference.
    `usual` are the rules of each suite, where more runs than these decide.
    """
    runs = list(runs)
    usual = usual or usual_rules(runs)
    refused = []
    cells: dict[Agent, list[RunRecord]] = defaultdict(list)
    for run in runs:
        other = _departure(rules(run), usual[run.suite])
        if other and unlike == "refuse":
            refused.append((run, _refusal(run, other, usual[run.suite])))
            continue
        cells[
            run.name,
            json.dumps(settings(run.spec), sort_keys=True, default=str),
            other,
            run.replay_ratio,
        ].append(run)
    several = len({key[3] for key in cells}) > 1
    names = _labels(list(cells), rows or {})
    notes: list[str] = []
    apart: list[str] = []
    groups = []
    for key, members in cells.items():
        agent, overrides = names[key]
        label = f"{agent}, RR {key[3]}" if several else agent
        apart += [label] if key[2] else []
        groups.append(
            Group(
                label,
                key[0],
                agent,
                key[3],
                json.loads(key[1]),
                overrides,
                _each_once(members, label, notes),
            )
        )
    return Grouped(
        sorted(groups, key=lambda one: (one.replay_ratio, one.label)), refused, notes, sorted(apart)
    )


def _refusal(run: RunRecord, other: Rules, usual: Rules) -> str:
    """Write why a run is left out: its rules beside the usual ones."""
    differences = ", ".join(
        f"{name} {short(value)}, not {short(dict(usual)[name])}" for name, value in other
    )
    return f"played by other rules than the rest of {run.suite}: {differences}"


def standing_for(groups: Sequence[Group], name: str) -> list[Group]:
    """Of each replay ratio, the agent that is what its name says; where there is none, the only one
    of the name.
    """
    named = {
        ratio: [one for one in groups if one.name == name and one.replay_ratio == ratio]
        for ratio in {one.replay_ratio for one in groups}
    }
    plain = {ratio: [one for one in some if one.agent == name] for ratio, some in named.items()}
    return [
        one
        for ratio in sorted(named)
        for one in plain[ratio] or named[ratio]
        if plain[ratio] or len(named[ratio]) == 1
    ]


def settings(spec: Mapping[str, Any]) -> dict[str, Any]:
    """Flatten the agent of a run.json: `algorithm.explorer.target_kl` -> 0.25."""
    return dict(_flat({key: value for key, value in spec.items() if key not in NOT_THE_AGENT}))


def rules(run: RunRecord) -> Rules:
    """Return what the scores of a run depend on beside its agent.

    That is the protocol, as far as it concerns the suite, and the simulator's version where it is
    known.
    """
    protocol = [(name, run.spec["protocol"].get(name)) for name in RULES.get(run.suite, FOR_ALL)]
    return (
        *protocol,
        *((name, run.versions.get(name, "")) for name in SIMULATORS.get(run.suite, ())),
    )


def describe_rules(run: RunRecord) -> str:
    return ", ".join(
        f"{name.replace('_', ' ')} {short(value)}"
        for name, value in rules(run)
        if value not in ("", None)
    )


def usual_rules(runs: Iterable[RunRecord]) -> dict[str, Rules]:
    """Of each suite, those of most runs: the protocol first, the version of each simulator among
    the runs that tell it. Of as many, the defaults.
    """
    counted: dict[str, Counter[Rules]] = defaultdict(Counter)
    for run in runs:
        counted[run.suite][rules(run)] += 1
    return {
        suite: _usual(counts, len(RULES.get(suite, FOR_ALL))) for suite, counts in counted.items()
    }


def _usual(counts: Counter[Rules], size: int) -> Rules:
    """`size` of the rules are the protocol's."""
    protocols, versions = (
        Counter[Rules](),
        [Counter[tuple[str, Any]]() for _ in next(iter(counts))[size:]],
    )
    for found, count in counts.items():
        protocols[found[:size]] += count
        for seen, version in zip(versions, found[size:], strict=True):
            seen[version] += count if version[1] else 0
    known = {
        one: sum(
            counts[found]
            for found in counts
            if found[:size] == one and all(value for _, value in found[size:])
        )
        for one in protocols
    }
    protocol = max(
        protocols,
        key=lambda one: (
            protocols[one],
            known[one],
            sum(PROTOCOL.get(n) == v for n, v in one),
            json.dumps(one),
        ),
    )
    return (*protocol, *(max(seen, key=lambda one: (seen[one], str(one[1]))) for seen in versions))


def _departure(ours: Rules, usual: Rules) -> Rules:
    return tuple(
        mine for mine, theirs in zip(ours, usual, strict=True) if mine != theirs and mine[1] != ""
    )


def _labels(agents: list[Agent], rows: Rows) -> dict[Agent, tuple[str, dict[str, Any]]]:
    """Label each agent by its name, and by what differs where it is not the row of that name.

    Without rows, the agent in the middle of several has the name alone.
    """
    found: dict[Agent, tuple[str, dict[str, Any]]] = {}
    alike = {
        ratio: _alike([json.loads(agent[1]) for agent in agents if agent[3] == ratio])
        for ratio in {agent[3] for agent in agents}
    }
    for name in dict.fromkeys(agent[0] for agent in agents):
        trees = {agent: json.loads(agent[1]) for agent in agents if agent[0] == name}
        middle = rows.get(name) or _middle(trees)
        for agent, tree in trees.items():
            against = [middle] if middle else list(trees.values())
            paths = sorted({path for other in [*against, tree] for path in other})
            apart = {
                path: tree.get(path)
                for path in paths
                if any(_plain(tree.get(path)) != _plain(other.get(path)) for other in against)
            }
            words = [
                f"{path.removeprefix('algorithm.')}={short(value)}"
                for path, value in apart.items()
                if path not in alike[agent[3]]
            ]
            if len(words) > MOST_NAMED:
                words = (
                    [f"{len(words)} settings of its own"]
                    if len(trees) == 1
                    else [*words[:MOST_NAMED], f"and {len(words) - MOST_NAMED} more"]
                )
            words += [f"{rule}={short(value)}" for rule, value in agent[2]]
            label = f"{name} [{', '.join(words)}]" if words else name
            taken = sum(
                label == found[other][0].partition(" #")[0]
                for other in found
                if other[3] == agent[3]
            )
            found[agent] = f"{label} #{taken + 1}" if taken else label, apart if middle else {}
    return found


def _alike(trees: list[dict[str, Any]]) -> set[str]:
    """How all of some agents were run, whatever the algorithm."""
    paths = {path for tree in trees for path in tree if not path.startswith("algorithm")}
    return {path for path in paths if all(tree.get(path) == trees[0].get(path) for tree in trees)}


def _plain(value: Any) -> Any:
    """Tuples and lists are one in JSON."""
    return list(value) if isinstance(value, tuple) else value


def _middle(trees: dict[Any, dict[str, Any]]) -> Any:
    """Find the agent that differs least from all others of its name, or None where several do.

    In a sensitivity study that is the default.
    """
    paths = {path for tree in trees.values() for path in tree}
    distances = {
        one: sum(tree.get(path) != other.get(path) for other in trees.values() for path in paths)
        for one, tree in trees.items()
    }
    nearest = [one for one, distance in distances.items() if distance == min(distances.values())]
    return (
        trees[nearest[0]]
        if len({json.dumps(trees[one], sort_keys=True) for one in nearest}) == 1
        else None
    )


def _each_once(runs: list[RunRecord], label: str, notes: list[str]) -> list[RunRecord]:
    """Of copies of one run the one that got furthest; two runs that claim one cell and disagree are
    an error.
    """
    cells: dict[tuple[str, int], RunRecord] = {}
    for run in sorted(runs, key=furthest, reverse=True):
        first = cells.setdefault((run.task, run.seed), run)
        if first is run:
            continue
        if not agree(first, run, ("step", "return", "success")):
            raise DataError(
                f"{first.path} and {run.path} are both {label} on {run.task}, seed {run.seed}, and "
                "their rows differ; report on one of their directories at a time, or remove one of "
                "the two"
            )
        notes.append(f"{run.path} is a copy of {first.path} and was counted once")
    return sorted(cells.values(), key=lambda one: (one.task, one.seed))


def _flat(tree: Any, prefix: str = "") -> Iterable[tuple[str, Any]]:
    if isinstance(tree, dict):
        for key in sorted(tree):
            yield from _flat(tree[key], f"{prefix}.{key}" if prefix else key)
    else:
        yield prefix, tree


def short(value: Any) -> str:
    if isinstance(value, list):
        return (
            "("
            + " ".join(short(item) for item in value[:8])
            + (" ..." if len(value) > 8 else "")
            + ")"
        )
    text = f"{value:g}" if isinstance(value, float) else "none" if value is None else str(value)
    return text if len(text) <= 40 else text[:39] + "…"
