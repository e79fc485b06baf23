"""The table of models: aliases, prices, sizes, and what a person may lay over it.

Tests of swarm/models/catalogue.py.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from swarm.core.errors import ConfigurationError
from swarm.models import Usage
from swarm.models.catalogue import (
    cost_usd,
    describe_aliases,
    load_models,
    max_output,
    price_of,
    resolve_model,
)

MILLION = 1_000_000


def write(path: Path, text: str) -> Path:
    path.write_text(text, encoding="utf-8")
    return path


@pytest.mark.parametrize(
    ("name", "parent", "expected"),
    [
        ("haiku", None, "claude-haiku-5-5"),
        ("Opus", None, "claude-opus-5-5"),
        (None, "claude-opus-5-5", "claude-sonnet-5-5"),
        ("", None, "claude-sonnet-5-5"),
        ("inherit", "claude-haiku-4-5", "claude-haiku-4-5"),
        ("inherit", None, "claude-sonnet-5-5"),
        ("claude-opus-4-5-20251101", None, "claude-opus-4-5-20251101"),
        ("us.anthropic.claude-opus-5-5-v1:0", None, "us.anthropic.claude-opus-5-5-v1:0"),
        ("somebody/else-7b", None, "somebody/else-7b"),
    ],
)
def test_a_name_resolves_to_a_full_id(name: str | None, parent: str | None, expected: str) -> None:
    assert resolve_model(name, default="sonnet", parent=parent) == expected


def test_a_misspelt_alias_is_refused_with_the_nearest_one() -> None:
    with pytest.raises(ConfigurationError, match=r"unknown model 'sonet': did you mean 'sonnet'\?"):
        resolve_model("sonet", default="haiku", parent=None)


def test_every_alias_leads_to_a_priced_model() -> None:
    catalogue = load_models()
    assert set(catalogue.aliases) == {"haiku", "sonnet", "opus", "fable"}
    assert set(catalogue.aliases.values()) <= set(catalogue.models)
    assert "haiku (claude-haiku-5-5)" in describe_aliases()


@pytest.mark.parametrize("model", sorted(load_models().models))
def test_every_row_keeps_the_order_of_the_token_classes(model: str) -> None:
    price = price_of(model)
    assert price is not None
    for rates in filter(None, [price, price.above]):
        assert rates.read < rates.input < rates.write_5m < rates.write_1h < rates.output
        assert rates.write_5m == pytest.approx(rates.input * 1.25)
        assert rates.write_1h == pytest.approx(rates.input * 2)


def test_each_token_class_costs_its_own_rate() -> None:
    usage = Usage(
        input_tokens=MILLION,
        output_tokens=MILLION,
        cache_creation_input_tokens=MILLION,
        cache_read_input_tokens=MILLION,
    )
    assert cost_usd("claude-opus-5-5", usage) == pytest.approx(4 + 20 + 5 + 0.20)


def test_a_large_prompt_moves_the_whole_request_to_the_dearer_tier() -> None:
    small = Usage(input_tokens=1_000, cache_read_input_tokens=99_000, output_tokens=MILLION)
    large = Usage(input_tokens=1_001, cache_read_input_tokens=99_000, output_tokens=MILLION)
    assert cost_usd("claude-haiku-5-5", small) == pytest.approx(0.50 + 0.0001 + 0.00099)
    assert cost_usd("claude-haiku-5-5", large) == pytest.approx(2.50 + 0.0005005 + 0.00495)


def test_an_unknown_model_has_no_price_and_cautious_sizes() -> None:
    assert price_of("somebody/else-7b") is None
    assert cost_usd("somebody/else-7b", Usage(input_tokens=1)) is None
    assert max_output("somebody/else-7b") == 64_000


@pytest.mark.parametrize(
    "model",
    [
        "claude-haiku-4-5-20251001",
        "claude-haiku-4-5@20251001",
        "anthropic.claude-haiku-4-5-20251001-v1:0",
        "eu.anthropic.claude-haiku-4-5-20251001-v1:0",
        "anthropic/claude-haiku-4-5",
    ],
)
def test_snapshots_and_the_ids_of_other_platforms_find_their_row(model: str) -> None:
    assert price_of(model) == price_of("claude-haiku-4-5")


def test_a_prices_file_changes_single_fields_and_adds_rows_and_aliases(tmp_path: Path) -> None:
    prices = write(
        tmp_path / "prices.yaml",
        """
        aliases: {mine: house-model, opus: claude-opus-4-8}
        models:
          claude-opus-5-5: {output: 99}
          house-model: {input: 1, output: 2, write_5m: 1, write_1h: 1, read: 0, context_window: 32000, max_output: 900}
        """,
    )
    opus = price_of("claude-opus-5-5", prices_file=prices)
    assert opus is not None and (opus.input, opus.output) == (4, 99)
    assert resolve_model("mine", default="opus", parent=None, prices_file=prices) == "house-model"
    assert resolve_model("house-model", default="opus", parent=None, prices_file=prices) == "house-model"
    assert resolve_model(None, default="opus", parent=None, prices_file=prices) == "claude-opus-4-8"
    house = price_of("house-model", prices_file=prices)
    assert house is not None and house.context_window == 32_000
    assert max_output("house-model", prices_file=prices) == 900
    shipped = price_of("claude-opus-5-5")
    assert shipped is not None and shipped.output == 20


@pytest.mark.parametrize(
    ("text", "complaint"),
    [
        ("models: {claude-opus-5-5: {output: much}}", r"models\.claude-opus-5-5\.output"),
        ("models: {claude-opus-5-5: {outptu: 3}}", r"models\.claude-opus-5-5\.outptu"),
        ("models: {new-model: {input: 3}}", r"models\.new-model\.output: Field required"),
        ("models: {claude-opus-5-5: {input: -1}}", r"models\.claude-opus-5-5\.input"),
        ("models: {claude-opus-5-5: 3}", r"models\.claude-opus-5-5 must be a mapping"),
        ("models: [a]", "`models` must be a mapping"),
        ("aliases: {a: 3}", r"aliases\.a must be a model id"),
        ("modles: {}", "unknown keys: modles"),
        ("- a", "must be a mapping"),
        ("models: {", "is not YAML"),
    ],
)
def test_a_bad_prices_file_is_refused_with_its_place(tmp_path: Path, text: str, complaint: str) -> None:
    prices = write(tmp_path / "prices.yaml", text)
    with pytest.raises(ConfigurationError, match=complaint) as caught:
        load_models(prices)
    assert str(prices) in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_missing_prices_file_is_named(tmp_path: Path) -> None:
    with pytest.raises(ConfigurationError, match=r"cannot read the prices file .*nowhere\.yaml"):
        load_models(tmp_path / "nowhere.yaml")


def test_an_empty_prices_file_changes_nothing(tmp_path: Path) -> None:
    assert load_models(write(tmp_path / "prices.yaml", "")).models == load_models().models


def test_a_file_is_read_once(tmp_path: Path) -> None:
    prices = write(tmp_path / "prices.yaml", "aliases: {mine: a-1}")
    first = load_models(prices)
    prices.unlink()
    assert load_models(prices) is first
