"""Tokens as text: whatever they hold, something can be shown, and nothing else happens."""

from hypothesis import given
from hypothesis import strategies as st

from regard.views.shown_text import cropped, right_to_left, shown

anything = st.text(st.characters(), max_size=30) | st.text(st.characters(categories=["Cs", "Cc"]), max_size=5)


@given(token=anything)
def test_what_is_shown_can_be_written_and_holds_no_control_character(token):
    text = shown(token)
    assert text.encode("utf-8").decode("utf-8") == text
    assert text.isprintable() or not any(ord(char) < 0x20 or 0x7F <= ord(char) < 0xA0 for char in text)
    assert shown(text) == text
    assert len(text) == len(token)


def test_each_kind_of_character_is_shown_as_itself_or_by_its_picture():
    assert shown("\x00\n\t\x7f\x85\ud800") == "␀␊␉␡��"
    assert shown("  ") == "␣␣" and shown(" a") == " a" and shown("") == ""
    for token in ("</script>", "שלום", "مرحبا", "e\u0301", "👩‍🚀", "日本語", "\u202eabc"):
        assert shown(token) == token


def test_a_crop_keeps_accents_and_emoji_whole():
    assert cropped("abcdef", 4) == "abc…" and cropped("abcd", 4) == "abcd"
    assert cropped("e\u0301" * 4, 3) == "e\u0301e\u0301…"
    assert cropped("👩‍🚀👍🏽ab", 3) == "👩‍🚀👍🏽…"
    wales = "🏴" + "".join(chr(0xE0000 + ord(letter)) for letter in "gbwls") + "\U000e007f"
    assert cropped(f"🇩🇪🇫🇷{wales}ab", 4) == f"🇩🇪🇫🇷{wales}…"


def test_the_first_letter_with_a_direction_decides():
    assert right_to_left(["12", "שלום", "abc"]) and right_to_left(["مرحبا"])
    assert not right_to_left(["abc", "שלום"]) and not right_to_left(["12"])
