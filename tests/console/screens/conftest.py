"""The browser of the screens' tests."""

from tests.console.browser import browser as browser
from tests.console.browser import console as console
from tests.console.browser import page as page
