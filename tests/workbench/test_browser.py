"""The page in a real Chromium, driven as a user would."""

from __future__ import annotations

from pathlib import Path

import pytest
from PIL import Image

from problems import BCMF
from tests.helpers import STUCK, tiny_model, write_config
from tests.workbench.browsers import (
    DONE,
    READY,
    chromium,
    launched,
    opened,
    shown,
)

pytestmark = pytest.mark.slow

PUZZLE = (
    "53..7....6..195....98....6.8...6...34..8.3..17...2...6.6....28....419..5....8..79"
)


@pytest.fixture(scope="module")
def browser():
    with chromium() as browser:
        yield browser


@pytest.fixture(scope="module")
def sudoku_url():
    with shown("pretrained/sudoku", "clues=30") as url:
        yield url


@pytest.fixture
def page(browser, sudoku_url):
    with opened(browser, sudoku_url) as page:
        yield page


def cell(page, row: int, column: int):
    return page.get_by_label(f"cells, row {row}, column {column}", exact=True)


def typed(page) -> str:
    """The 81 cells of the editor, a dot where one is empty."""
    values = page.eval_on_selector_all("#editors input", "all => all.map(e => e.value)")
    return "".join(value or "." for value in values)


def answers(page) -> list[str]:
    """The 81 digits of each grid on the screen."""
    grids = page.query_selector_all("#samples .cells")
    return [grid.text_content() for grid in grids]


def paste(page, where, text: str) -> None:
    """Paste a text, as Ctrl-V does."""
    where.focus()
    page.evaluate(
        """text => {
            const data = new DataTransfer();
            data.setData("text", text);
            const event = {clipboardData: data, bubbles: true, cancelable: true};
            document.activeElement.dispatchEvent(new ClipboardEvent("paste", event));
        }""",
        text,
    )


def ask(page, samples=1, seed=0, steps=None, button="#sample") -> None:
    page.fill("#count", str(samples))
    page.locator("#settings").evaluate("element => { element.open = true; }")
    page.fill("#seed", str(seed))
    page.fill("#steps", "" if steps is None else str(steps))
    page.click(button)


def is_solution(grid: str) -> bool:
    rows = [grid[9 * i : 9 * i + 9] for i in range(9)]
    columns = ["".join(row[j] for row in rows) for j in range(9)]
    blocks = [
        "".join(rows[i + k][j : j + 3] for k in range(3))
        for i in (0, 3, 6)
        for j in (0, 3, 6)
    ]
    return all(set(unit) == set("123456789") for unit in rows + columns + blocks)


def test_the_page_shows_an_instance_of_the_problem(page):
    assert page.inner_text("h1") == "Sudoku"
    assert sum(value != "." for value in typed(page)) == 30
    assert page.locator("#editors input:not([aria-label])").count() == 0
    assert page.locator("#variables tbody tr").count() == 1
    page.wait_for_selector("#graph-views canvas")


def test_clues_are_pasted_and_the_answer_comes_out_of_noise(page):
    page.click("#clear")
    assert typed(page) == "." * 81
    paste(page, cell(page, 1, 1), PUZZLE)
    assert typed(page) == PUZZLE
    ask(page)
    page.wait_for_selector("#samples .cells")
    page.wait_for_selector(DONE)
    (answer,) = answers(page)
    assert is_solution(answer)
    pairs = zip(PUZZLE, answer, strict=True)
    assert all(clue in (".", digit) for clue, digit in pairs)
    assert int(page.get_attribute("#step", "max")) > 3  # frames that it came by
    assert "evaluations in" in page.inner_text("#status")


def test_solving_goes_on_until_all_rules_hold(page):
    page.click("#clear")
    paste(page, cell(page, 1, 1), PUZZLE)
    ask(page, samples=2, button="#solve")
    page.wait_for_selector(DONE)
    for answer in answers(page):
        assert is_solution(answer)
    assert page.get_by_text("all rules hold").count() == 2
    assert page.locator("#samples .wrong").count() == 0


def test_what_breaks_a_rule_is_red(page):
    page.click("#clear")
    ask(page, samples=4, steps=2)  # too few for cells to agree with each other
    page.wait_for_selector(DONE)
    assert page.locator("#samples .wrong").count() > 1
    page.get_by_text("broken: a digit twice").first.wait_for()


def test_the_way_to_the_answer_can_be_replayed(page):
    ask(page)
    page.wait_for_selector(DONE)
    (last,) = answers(page)
    page.locator("#step").fill("0")
    (first,) = answers(page)
    assert first != last
    page.locator("#step").fill(page.locator("#step").get_attribute("max"))
    assert answers(page) == [last]


def test_several_samples_are_side_by_side_with_what_they_agree_on(page):
    ask(page, samples=3)
    page.wait_for_selector(DONE)
    titles = page.eval_on_selector_all(
        "#samples h3", "all => all.map(e => e.innerText)"
    )
    assert [title.split("\n")[0].split("  ")[0] for title in titles] == [
        "All samples",
        "Sample 1",
        "Sample 2",
        "Sample 3",
    ]
    assert len(answers(page)) == 4


def test_keys_move_between_cells_hide_values_and_bring_them_back(page):
    page.click("#clear")
    cell(page, 1, 1).focus()
    page.keyboard.press("7")
    page.keyboard.press("ArrowRight")
    page.keyboard.press("ArrowDown")
    page.keyboard.press("4")
    assert cell(page, 1, 1).input_value() == "7"
    assert cell(page, 2, 2).input_value() == "4"
    page.keyboard.press(" ")
    assert cell(page, 2, 2).input_value() == ""
    page.keyboard.press(" ")
    assert cell(page, 2, 2).input_value() == "4"
    page.keyboard.press("Delete")
    page.keyboard.press(" ")
    assert cell(page, 2, 2).input_value() == ""
    assert page.locator("#editors input[tabindex='0']").count() == 1


def test_a_name_gives_or_hides_all_values(page):
    page.click("#editors button.name")
    assert "." not in typed(page)
    page.click("#editors button.name")
    assert typed(page) == "." * 81


def test_sampling_is_canceled_and_can_begin_again(page):
    ask(page, samples=8, steps=1000)
    page.wait_for_selector("#samples .cells")
    page.click("#cancel")
    page.get_by_text("Canceled.").wait_for()
    ask(page, steps=5)
    page.wait_for_selector(DONE)


def test_wrong_input_is_refused_in_words(page):
    cell(page, 1, 1).fill("x")
    assert 'takes 1 to 9 (got "x")' in page.inner_text("#alert")
    cell(page, 1, 1).fill("")
    assert page.locator("#alert").is_hidden()
    page.click("#clear")
    paste(page, cell(page, 1, 1), "5\t5\n")
    ask(page)
    page.wait_for_selector("#alert:not([hidden])")
    assert "contradict each other" in page.inner_text("#alert")
    assert "from 0, which is shown as 1" in page.inner_text("#alert")
    paste(page, cell(page, 9, 9), "1 2 3")
    assert "do not fit there" in page.inner_text("#alert")
    page.click("#clear")
    ask(page, samples=99)
    assert "from 1 to 16 (got 99)" in page.inner_text("#alert")
    assert page.locator("#samples .cells").count() == 0


def test_a_page_that_is_reloaded_while_it_samples_starts_anew(page):
    ask(page, samples=8, steps=1000)
    page.wait_for_selector("#samples .cells")
    page.reload()
    page.wait_for_selector(READY)
    ask(page, steps=5)
    page.wait_for_selector(DONE)


def test_two_browsers_at_once_get_their_own_answers(browser, page, sudoku_url):
    with launched(browser.browser_type) as second, opened(second, sudoku_url) as other:
        for one, clue in ((page, "1"), (other, "2")):
            one.click("#clear")
            cell(one, 1, 1).fill(clue)
        ask(page, seed=1)
        ask(other, seed=1)
        for one, clue in ((page, "1"), (other, "2")):
            one.wait_for_selector(DONE)
            (answer,) = answers(one)
            assert answer[0] == clue


def test_values_of_huge_variables_are_loaded(page):
    span = page.evaluate(
        """async () => {
            const { Instance, Variable } = await import("/static/instance.js");
            const described = { name: "x", shape: [1e6], high: null, classes: null };
            const variable = new Variable(described, { signs: [], labels: [] });
            const values = new Array(1e6).fill(0.5), given = new Array(1e6).fill(true);
            values[7] = -3;
            const instance = new Instance([variable]);
            instance.load({ values: { x: values }, given: { x: given } });
            return variable.span;
        }"""
    )
    assert span == 3


def write_run(run: Path, *losses: float, side: int) -> Path:
    """A run folder with a log, and a picture of that many pixels."""
    log = run / "csv" / "version_0" / "metrics.csv"
    log.parent.mkdir(parents=True)
    (run / "pictures").mkdir()
    Image.new("RGB", (side, side), "red").save(run / "pictures" / "step-100.png")
    rows = [f"{loss},{100 * i + 99}\n" for i, loss in enumerate(losses)]
    log.write_text("".join(["loss,step\n", *rows]))
    return log


def export(run: Path, seed: int) -> None:
    """Write a model that has learned nothing, as at the end of a run."""
    tiny_model(BCMF(m=3, n=3, k=2), seed, num_timesteps=50).save_pretrained(
        run / "model"
    )
    (run / "metrics.json").write_text("{}")


def test_training_is_followed_from_run_to_run(browser, tmp_path):
    config = write_config(tmp_path / "mine.yaml")
    first, second = tmp_path / "runs" / "mine", tmp_path / "runs" / "mine-2"
    disabled, enabled = "#sample:disabled", "#sample:enabled"
    with (
        shown(config.name, folder=tmp_path) as url,
        opened(browser, url) as page,
    ):

        def wait_for(loss: str, side: int) -> None:
            caption = page.locator("#curves figcaption", has_text=f"loss{loss}")
            caption.wait_for()
            picture = page.locator("#pictures img")
            picture.wait_for()
            for _ in range(20 * STUCK):
                if picture.evaluate("image => image.naturalWidth") == side:
                    return
                page.wait_for_timeout(50)
            raise AssertionError("the picture is not that of the run")

        page.get_by_text("There is no run of this config yet").wait_for()
        page.wait_for_selector(disabled)

        log = write_run(first, 0.75, 0.5, side=3)
        wait_for("0.5", side=3)
        assert page.locator("#curves path.line").count() == 1
        assert page.locator("#curves circle").count() == 2
        page.wait_for_selector(disabled)
        with log.open("a") as file:
            file.write("0.25,299\n")
        wait_for("0.25", side=3)
        assert page.locator("#curves circle").count() == 3

        export(first, seed=0)
        page.wait_for_selector(enabled)
        page.get_by_text("finished").wait_for()
        ask(page, steps=2)
        page.wait_for_selector(DONE)
        assert len(answers(page)) > 0

        write_run(second, 8, side=5)
        wait_for("8", side=5)
        assert page.locator("#curves figure").count() == 1
        assert page.locator("#curves circle").count() == 1
        assert page.locator("#pictures figure").count() == 1
        page.wait_for_selector(disabled)
        assert answers(page) == []  # of a model that is no longer shown
        export(second, seed=1)
        page.wait_for_selector(enabled)
        ask(page, steps=2)
        page.wait_for_selector(DONE)


MODELS = ["sudoku", "bcmf-varsize", "state-space", "sorting-n10", "boolean-circuit"]
SCREENS = [(width, scheme) for width in (1400, 400) for scheme in ("light", "dark")]


OUTSIDE = """width => [...document.querySelectorAll("main *")]
    .filter(e => !e.closest(".strip *, .cells *"))
    .filter(e => e.getBoundingClientRect().right > width)
    .map(e => e.outerHTML.slice(0, 200))
"""  # elements beyond the right edge, except in rows that scroll


@pytest.mark.parametrize("model", MODELS)
def test_every_page_fits_the_screen_and_shows_samples(browser, model):
    with shown(f"pretrained/{model}") as url:
        for width, scheme in SCREENS:
            size = {"width": width, "height": 900}
            with opened(browser, url, viewport=size, color_scheme=scheme) as page:
                ask(page, samples=2, steps=4)
                page.wait_for_selector(DONE)
                assert page.locator("#samples .card").count() > 0
                page.wait_for_selector("#graph-views canvas")
                wide = "document.documentElement.scrollWidth"
                assert page.evaluate(wide) <= width
                assert page.evaluate(OUTSIDE, width) == []
