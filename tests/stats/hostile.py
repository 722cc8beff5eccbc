"""Texts that a page must show and never obey."""

from __future__ import annotations

SCRIPT = '</script><script>window.hit=1</script><img src="https://x.invalid/a.png" onerror="window.hit=2">'
COMMENT = "<!-- <script> --!> ]]> &lt;b&gt; \u2028\u2029 {{ 7 * 7 }} {% raw %}"
REORDER = "\u202e\u2067right to left\u2069\u202c \u05d0\u05d1\u05d2 \u200f\u0000\u0007\u001b[31m\U000e0041"
ATTRIBUTE = "\"'><svg onload=window.hit=3><a href=javascript:window.hit=4>x</a>"
LONG = "word " * 200_000 + "THE VERY END"  # 1 MB
ALL = (SCRIPT, COMMENT, REORDER, ATTRIBUTE)
