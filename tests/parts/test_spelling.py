"""How a row is written: as JSON, as options, as Python."""

import json
from typing import Literal

import pytest

from dualac import agents
from dualac.agents.algorithm import Algorithm
from dualac.agents.algorithms import ALGORITHMS
from dualac.agents.critics import Scalar
from dualac.agents.duals import Dual, Held, Learnt
from dualac.agents.explorers import Explorer, FromPolicy
from dualac.agents.optimist import OptimisticActor
from dualac.agents.pessimism import Fixed
from dualac.errors import DataError, DualacError, UsageError
from dualac.parts.as_json import difference, from_json, to_json
from dualac.parts.fields import field_docs, words_for
from dualac.parts.paths import options, replaced
from dualac.parts.text import parse, parse_count, to_python

names = pytest.mark.parametrize("name", list(ALGORITHMS))
DAC = ALGORITHMS["dac"]
TEMPERED = replaced(
    DAC,
    {
        "explorer.optimism": Held(1.0),
        "pessimism.backup_beta": -1.0,
        "critic.hidden": (8, 16),
        "critic.layer_norm": True,
    },
)


@names
def test_a_row_survives_json(name):
    assert (
        from_json(Algorithm, json.loads(json.dumps(to_json(ALGORITHMS[name])))) == ALGORITHMS[name]
    )


def test_a_changed_row_survives_json():
    back = from_json(Algorithm, json.loads(json.dumps(to_json(TEMPERED))))
    assert back == TEMPERED
    assert isinstance(back.explorer.optimism, Held)
    assert back.critic.hidden == (8, 16)


def test_json_that_misses_a_field_without_a_default_is_refused_by_its_name():
    written = to_json(DAC)
    del written["critic"]
    with pytest.raises(DataError, match="critic"):
        from_json(Algorithm, written)


def test_json_from_before_a_field_was_added_has_its_default():
    written = to_json(DAC)
    del written["critic"]["polyak"]
    assert from_json(Algorithm, written) == DAC


def test_json_without_defaults_reads_back_and_holds_only_what_was_chosen():
    assert to_json(DAC, defaults=False)["explorer"] == {"part": "OptimisticActor"}
    assert from_json(Algorithm, to_json(TEMPERED, defaults=False)) == TEMPERED


def test_json_with_a_field_of_another_version_is_refused_by_its_name():
    with pytest.raises(DataError, match="n_step"):
        from_json(Algorithm, to_json(DAC) | {"n_step": 3})


@pytest.mark.parametrize("part", ["Soft", "Nothing", None])
def test_json_with_a_part_that_cannot_stand_there_is_refused(part):
    written = to_json(DAC)
    written["explorer"] = {"part": part}
    with pytest.raises(DataError, match="is not one of ") as refusal:
        from_json(Algorithm, written)
    for name in ("FromPolicy", "Noise", "UpperBoundShift", "OptimisticActor"):
        assert name in str(refusal.value)


@pytest.mark.parametrize(
    ("part", "field", "value"),
    [
        ("explorer", "form", "simpel"),
        ("explorer", "optimism", 1.0),
        ("critic", "k", 2.5),
        ("critic", "k", "2"),
        ("critic", "k", True),
        ("critic", "hidden", 256),
        ("critic", "hidden", [256, "x"]),
        ("critic", "layer_norm", 1),
        ("critic", "lr", None),
        ("pessimism", "beta", "-0.2"),
    ],
)
def test_json_with_a_value_of_another_type_is_refused(part, field, value):
    written = to_json(DAC)
    written[part][field] = value
    with pytest.raises(DualacError, match=f"{field} cannot be|is not one of"):
        from_json(Algorithm, written)


def test_equal_rows_are_written_alike():
    """Else one run would have two identities."""
    alike = replaced(DAC, {"pessimism.beta": -1, "critic.k": 2.0, "critic.hidden": [256, 256]})
    assert json.dumps(to_json(alike)) == json.dumps(
        to_json(replaced(DAC, {"pessimism.beta": -1.0}))
    )


def test_json_with_a_value_out_of_range_is_refused():
    written = to_json(DAC)
    written["pessimism"]["beta"] = 0.2
    with pytest.raises(UsageError, match="minimum of two critics"):
        from_json(Algorithm, written)


def test_what_differs_is_told_by_path():
    lines = difference(to_json(DAC), to_json(TEMPERED))
    assert "critic.hidden: [8, 16] there, [256, 256] here" in lines
    assert any(line.startswith("explorer.optimism.part") for line in lines)
    assert difference(to_json(DAC), to_json(DAC)) == []


def test_a_value_is_set_by_its_path():
    assert replaced(DAC, {"explorer.target_kl": 0.1}) == Algorithm(
        DAC.pessimism, DAC.policy, OptimisticActor(target_kl=0.1), DAC.critic
    )
    assert replaced(DAC, {"explorer.optimism.lr": 1e-3}).explorer.optimism == Learnt(1.0, lr=1e-3)
    assert replaced(DAC, {"gamma": 0.5, "explorer.optimism": Held(1.0)}).explorer.optimism == Held(
        1.0
    )
    assert replaced(DAC, {}) == DAC


def test_a_part_that_is_replaced_can_be_changed_in_the_same_breath():
    assert replaced(
        DAC, {"explorer.optimism.value": 0.5, "explorer.optimism": Held(1.0)}
    ).explorer.optimism == Held(0.5)


def test_values_that_fit_only_together_can_be_set_together():
    """An optimism of -0.5 is below a pessimism of -0.2, but above one of -1."""
    row = replaced(DAC, {"explorer.optimism.start": -0.5, "pessimism.beta": -1.0})
    assert (row.explorer.optimism.start, row.pessimism.beta) == (-0.5, -1.0)


def test_a_value_that_makes_no_sense_is_refused_where_it_is_set():
    with pytest.raises(UsageError, match="minimum of two critics"):
        replaced(DAC, {"pessimism.beta": 0.5})


@pytest.mark.parametrize("path", ["nothing", "explorer.nothing", "explorer.optimism.nothing"])
def test_a_path_to_nowhere_is_refused(path):
    with pytest.raises(UsageError, match="has no nothing"):
        replaced(DAC, {path: 1.0})


@names
def test_every_value_of_a_row_is_an_option_with_help(name):
    found = {option.path: option for option in options(ALGORITHMS[name])}
    assert {
        "pessimism",
        "policy.lr",
        "critic.k",
        "explorer",
        "gamma",
        "judged",
        "explorer_restart_every",
    } <= set(found)
    assert [path for path, option in found.items() if not option.help] == []


@pytest.mark.parametrize(
    ("name", "path"),
    [
        ("dac", "pessimism.beta"),
        ("dac", "policy.temperature.lr"),
        ("dac", "explorer.target_kl"),
        ("td3", "policy.target_noise"),
        ("td3", "explorer.sigma"),
        ("oac", "explorer.shift"),
        ("top", "pessimism.arms"),
        ("gpl", "pessimism.start"),
        ("redq", "pessimism.m"),
        ("redq", "policy.delay"),
        ("dac-both", "critic.upper_bound"),
    ],
)
def test_a_part_s_own_values_are_options_where_it_stands(name, path):
    assert path in {option.path for option in options(ALGORITHMS[name])}


@names
def test_every_option_can_be_set_to_what_it_is(name):
    row = ALGORITHMS[name]
    assert replaced(row, {option.path: option.value for option in options(row)}) == row


def test_the_string_below_a_field_is_its_help():
    assert field_docs(Scalar)["k"] == "how many critics (k)"


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("200k", 200_000),
        ("200K", 200_000),
        ("1M", 1_000_000),
        ("1.5k", 1500),
        ("2.5M", 2_500_000),
        ("1_000", 1000),
        ("0", 0),
        ("-3", -3),
    ],
)
def test_whole_numbers_are_read_as_people_write_them(text, number):
    assert parse_count(text) == parse(int, text) == number
    assert type(parse(int, text)) is int


@pytest.mark.parametrize(
    "text", ["", "k", "M", "1.5", "1e3", "0.0001k", "nan", "nank", "infM", "inf", "ten", "1kk"]
)
def test_what_is_no_whole_number_is_refused(text):
    with pytest.raises(UsageError, match="is not a whole number"):
        parse(int, text)


@pytest.mark.parametrize(
    ("hint", "text", "value"),
    [
        (float, "3e-4", 3e-4),
        (float, "-1", -1.0),
        (float | None, "none", None),
        (float | None, "None", None),
        (float | None, "-1.0", -1.0),
        (bool, "true", True),
        (bool, "off", False),
        (str, "as it is", "as it is"),
        (tuple[int, ...], "256,256", (256, 256)),
        (tuple[int, ...], "1k", (1000,)),
    ],
    ids=str,
)
def test_words_become_values_of_their_type(hint, text, value):
    assert parse(hint, text) == value
    assert type(parse(hint, text)) is type(value)


@pytest.mark.parametrize(
    ("hint", "text"),
    [(float, "nan"), (float, "x"), (float, ""), (bool, "perhaps"), (tuple[int, ...], "8,x")],
    ids=str,
)
def test_words_that_are_no_value_of_their_type_are_refused(hint, text):
    with pytest.raises(UsageError):
        parse(hint, text)


def option_of(row, path):
    return next(option for option in options(row) if option.path == path)


def test_a_choice_is_one_of_those_there_are():
    hint = option_of(DAC, "explorer.form").hint
    assert parse(hint, "simple") == "simple"
    with pytest.raises(UsageError, match="perturbation, simple, deterministic, independent"):
        parse(hint, "Simple")


@pytest.mark.parametrize(
    ("hint", "text", "part"),
    [
        (Dual, "Held(0.25)", Held(0.25)),
        (Dual, "Held(1)", Held(1.0)),
        (Dual, "Held(value=-0.25)", Held(-0.25)),
        (Dual, "Learnt(0.5, lr=3e-4)", Learnt(0.5, lr=3e-4)),
        (Dual, "Learnt(0.5, bounded=True)", Learnt(0.5, bounded=True)),
        (Explorer, "FromPolicy()", FromPolicy()),
        (Explorer, "OptimisticActor(target_kl=0.1)", OptimisticActor(target_kl=0.1)),
        (
            Explorer,
            "OptimisticActor(form='simple', hidden=(8, 16))",
            OptimisticActor(form="simple", hidden=(8, 16)),
        ),
        (Fixed, "Fixed(-0.2, None)", Fixed(-0.2)),
        (Fixed, "Fixed(-0.2, backup_beta=-1)", Fixed(-0.2, backup_beta=-1.0)),
    ],
    ids=str,
)
def test_a_part_is_written_as_its_call(hint, text, part):
    assert parse(hint, text) == part


def test_whole_numbers_in_a_part_become_floats_where_floats_belong():
    assert type(parse(Dual, "Held(1)").value) is float


@pytest.mark.parametrize("text", ["Hold(0.25)", "Soft()", "print(1)", "eval('1')", "Fixed(-1.0)"])
def test_a_part_that_cannot_stand_there_is_refused(text):
    with pytest.raises(
        UsageError, match=r"cannot stand here; write one of Held\(...\), Learnt\(...\)"
    ):
        parse(Dual, text)


def test_a_part_may_hold_parts():
    assert parse(Explorer, "OptimisticActor(target_kl=0.5, optimism=Held(1.0))") == OptimisticActor(
        target_kl=0.5, optimism=Held(1.0)
    )
    with pytest.raises(UsageError, match="'Noise' cannot stand here; write one of Held"):
        parse(Explorer, "OptimisticActor(optimism=Noise())")


def test_a_word_of_a_few_is_the_value_it_stands_for():
    assert parse(Literal[1, 2], "2") == 2
    assert words_for(Literal[1, 2] | None) == ["1", "2"]
    with pytest.raises(UsageError, match="'3' is not one of 1, 2"):
        parse(Literal[1, 2], "3")


def test_a_kind_that_cannot_be_written_is_an_error_of_one_line():
    with pytest.raises(UsageError, match="a complex cannot be written here"):
        parse(complex, "1j")


def test_the_help_of_a_scalar_begins_with_its_symbol():
    help_of = {option.path: option.help for option in options(DAC)}
    for path, symbol in (
        ("policy.temperature", "alpha"),
        ("explorer.optimism", "beta_o"),
        ("explorer.kl_weight", "tau"),
    ):
        assert help_of[f"{path}.start"].startswith(f"{symbol}: ")


def test_a_part_with_a_slip_of_the_pen_is_recognised():
    with pytest.raises(UsageError, match="did you mean Learnt"):
        parse(Dual, "Learn(1.0)")


@pytest.mark.parametrize(
    "text",
    [
        "__import__('os').system('x')",
        "Held(__import__('os').system('x'))",
        "Held(value=open('x').read())",
        "(lambda: Held(1.0))()",
        "Held",
        "Held(x)",
        "Held(0.25",
        "Held(0.25); 1",
        "Held(0.25) or 1",
        "Held(*[1.0])",
        "Held(1.0 if 1 else 2.0)",
        "Held(f'{1}')",
        "[Held(1.0)][0]",
        "0.25",
        "",
        "\0",
    ],
)
def test_what_is_not_a_call_with_literals_is_refused_and_nothing_is_run(text):
    with pytest.raises(UsageError, match="is not a part"):
        parse(Dual, text)


@pytest.mark.parametrize(
    "text",
    [
        "Held()",
        "Held(1.0, 2.0)",
        "Held(wert=1.0)",
        "Held(**{'value': 1.0})",
        "Held('1.0')",
        "Held(True)",
        "Held(None)",
        "Learnt(1.0, bounded=1)",
    ],
)
def test_a_part_with_arguments_it_does_not_have_is_refused(text):
    with pytest.raises(UsageError):
        parse(Dual, text)


@pytest.mark.parametrize(
    "text", ["Held(1e999)", "Held(-1.0)", "Learnt(1.0, lr=-1.0)", "Learnt(1.0, lr=0)"]
)
def test_a_part_that_makes_no_sense_where_it_stands_is_refused_in_its_own_words(text):
    with pytest.raises(UsageError, match="must be"):
        replaced(DAC, {"explorer.kl_weight": parse(Dual, text)})


def test_python_leaves_out_defaults():
    assert to_python(DAC) == "Algorithm(Fixed(-0.2), Soft(), OptimisticActor(), Scalar())"
    assert to_python(OptimisticActor(target_kl=0.1)) == "OptimisticActor(target_kl=0.1)"
    assert to_python(OptimisticActor(optimism=Held(1.0))) == "OptimisticActor(optimism=Held(1.0))"
    assert to_python(Learnt(0.5)) == "Learnt(0.5)"


@pytest.mark.parametrize("row", [*ALGORITHMS.values(), TEMPERED], ids=to_python)
def test_python_reads_back_what_was_written(row):
    assert eval(to_python(row), dict(vars(agents))) == row
