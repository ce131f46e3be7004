"""An account without credit: services say so with several statuses, in their own codes, and some in words only.

No waiting cures it, so it is distinguished from a rate limit. A sentence about credit counts only where the service
speaks of the account, and not of a quota that fills up again by itself.
"""

from __future__ import annotations

import re

_CODES = frozenset(
    {
        "insufficient_quota",
        "insufficient_user_quota",
        "insufficient_credits",
        "insufficient_credit",
        "insufficient_balance",
        "insufficient_funds",
        "billing_hard_limit_reached",
        "billing_not_active",
        "billing_error",
        "payment_required",
        "credit_limit",
        "credit_balance_exhausted",
        "enforced_spend_limit_reached",
        "credits_exhausted",
        "out_of_credit",
        "out_of_credits",
        "exceeded_current_quota_error",
        "arrearage",
        "accountoverdueerror",
    }
)
_STATUSES = frozenset({400, 402, 403, 412, 429})
"""Where words alone may say it; a server error is one, whatever it says."""
_WORDS = re.compile(
    r"credit balance is too low|out of (?:api )?credits?\b|billing hard limit|payment (?:is )?required"
    r"|(?:insufficient|not enough|no|no more|no remaining|used (?:up )?all(?: of)?(?: your| available)*)"
    r" (?:account |api |prepaid )?(?:credits?|balance|funds)\b"
    r"|(?:credits?|balance|funds) (?:is|are|has been|have been) (?:insufficient|exhausted|depleted|used up|too low)"
    r"|exceeded your monthly included credits|monthly spending limit|in arrears|余额不足|欠费"
    r"|reached your specified (?:\w+ )?api usage limits?",
    re.IGNORECASE,
)
_REFILLS = re.compile(r"\bper (?:second|minute|hour|day)\b|/(?:s|min|h)\b|try again in\b", re.IGNORECASE)
_READ = 300
"""Characters: a message that repeats the request does so behind its first sentence."""


def is_credit_code(code: str) -> bool:
    """Whether a code says that the account has no credit."""
    return code.strip().lower() in _CODES


def is_out_of_credit(status: int, code: str, words: str) -> bool:
    """Whether an error says that the account has no credit, rather than that requests come too fast."""
    # Some servers have their code where others have their words.
    if status == 402 or is_credit_code(code) or is_credit_code(words):
        return True
    start = words[:_READ]
    return status in _STATUSES and bool(_WORDS.search(start)) and not _REFILLS.search(start)
