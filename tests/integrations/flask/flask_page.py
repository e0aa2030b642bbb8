"""The chat page in a browser: how tests type, wait and look."""

IS_LIVE = "!document.getElementById('stop').hidden"
IS_IDLE = "document.getElementById('stop').hidden"
TURN = "[...document.querySelectorAll('.turn')].at(-1)"
TEXT = f"({TURN}?.querySelector('.text')?.innerText || '')"
ASK = f"({TURN}?.querySelector('.ask:not(.over)'))"
TOOL = f"({TURN}?.querySelector('.tool .how')?.innerText || '')"


def ask(page, text):
    """Type a question, and press Enter."""
    page.evaluate("document.getElementById('prompt').focus()")
    page.type(text)
    page.press("Enter", 13)


def wrong(page):
    """Return what the console complains about, without what was loaded."""
    return [each for each in page.complaints() if not str(each).startswith("http")]


def begin_story(page):
    ask(page, "tell me a story")
    page.wait_for(f"{TEXT}.length > 60")


def begin_work(page):
    """Have a tool work, and wait until it does."""
    ask(page, "work 20 seconds")
    page.wait_for(f"{TOOL}.includes('%')")


def stop(page):
    """Click on Stop, and wait until the page says how it ended; return that."""
    page.click("#stop")
    page.wait_for(IS_IDLE)
    return page.evaluate(f"{TURN}.innerText")
