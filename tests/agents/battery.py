"""The script of the SDK batteries: what a request gets is chosen by a mark in its last message."""

DSML = "｜DSML｜"


def invoke(name, key, value):
    parameter = f'<{DSML} parameter name="{key}" string="true">{value}</{DSML} parameter>'
    return f'<{DSML} invoke name="{name}">\n{parameter}\n</{DSML} invoke>'


def calls(*invokes):
    return f"\n\n<{DSML} calls>\n" + "\n".join(invokes) + f"\n</{DSML} calls>"


def line(mark, out=None, **more):
    return {"when": {"last": mark}, "times": "always", **({"out": out} if out is not None else {}), **more}


BREST, BRUGES = invoke("tide", "harbour", "Brest"), invoke("tide", "harbour", "Bruges")

# Of the server that plays it.
RIGHT_KEY = "right-key-3141"
OPTIONS = ["--api-key", RIGHT_KEY, "--max-body", "64KiB", "--request-timeout", "1500ms"]

SCRIPT = [
    line("[[text]]", "I think.</think>Hello, world."),
    line("[[cached]]", "I think.</think>Hello, world.", cached_tokens=3),
    line("[[call]]", "Look it up.</think>One moment." + calls(BREST)),
    line("[[parallel]]", "Two of them.</think>" + calls(BREST, BRUGES)),
    line("[[forced]]", "I must.</think>" + calls(BREST)),
    line("4.2 m", "Now I know.</think>It is 4.2 m."),
    line("[[stop]]", "</think>one two END three"),
    line("[[long]]", "</think>" + "word " * 400, pace_ms=20),
    line("[[busy]]", refuse="rate_limit", retry_after_ms=1),
    line("[[overloaded]]", refuse="overloaded", retry_after_ms=1),
    line("[[internal]]", refuse="internal"),
    line("[[context]]", refuse="context"),
    line("[[fail]]", "</think>some words before it fails", fail_after=4),
    line("[[hang]]", "</think>some words before it hangs", hang_after=4),
    line("[[late]]", "</think>some words before it hangs", hang_after=4),
]
