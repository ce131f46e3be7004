"""An agent without a model: it works as its tier tells it to, and reports like `claude -p --output-format json`."""

import json
import sys
from pathlib import Path

FIXES = {
    "total()": ("sum(prices[1:])", "sum(prices)"),
    "discount()": ("price - price * percent", "max(0, price - price * percent // 100)"),
}
notes = Path("AGENTS.md").read_text(encoding="utf-8") if Path("AGENTS.md").exists() else ""
prompt = Path(sys.argv[1]).read_text(encoding="utf-8")
(function,) = (name for name in FIXES if name in prompt)
wrong, right = FIXES[function]
if "tests" not in notes and function == "discount()":
    right = "price - price * percent / 100"  # without a look at the tests, it forgets a case
shop = Path("shop.py")
shop.write_text(shop.read_text(encoding="utf-8").replace(wrong, right), encoding="utf-8")
if "CHANGES" in notes:
    Path("CHANGES").write_text(f"{function} is correct now\n", encoding="utf-8")
usage = {"input_tokens": 200 + len(notes), "output_tokens": 40 + len(right)}
print(json.dumps({"type": "result", "is_error": False, "result": f"{function} is fixed.", "usage": usage}))
