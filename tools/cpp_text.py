"""C++ source as tidy sees it: code without comments and literals, comments, includes, functions. No parser: it relies on
the shape that clang-format gives."""

import bisect
import re
from dataclasses import dataclass, field

# A number first, so that the quotes of 1'000'000 are not character literals.
_TOKEN = re.compile(
    r"""(?<!\w)\d(?:'?[\w.])*
      | (?P<comment>//[^\n]* | /\*.*?\*/)
      | R"(?P<tag>\w*)\((?P<raw>.*?)\)(?P=tag)"
      | "(?P<text>(?:[^"\\\n]|\\.)*)"
      | '(?P<char>(?:[^'\\\n]|\\.)+)'""",
    re.S | re.X,
)
_INCLUDE = re.compile(r'^\s*#\s*include\s*(?:"([^"]+)"|<([^>]+)>)')
_DIRECTIVE = re.compile(r"^[ \t]*#(?:[^\n]*\\\n)*[^\n]*", re.M)
_CONTROL = {"if", "for", "while", "switch", "else", "do", "try", "catch"}
# What may stand between the closing parenthesis of a parameter list and the body.
_SIGNATURE = re.compile(
    r"\)\s*(?:const|noexcept|override|final|mutable|&&?|->[^{}]*|SLUICE_\w+(?:\([^()]*\))?|\s)*"
    r"(?::(?!:).*)?$",
    re.S,
)


def _blank(text):
    return re.sub(r"[^\n]", " ", text)


@dataclass
class Function:
    name: str
    first: int  # line of the signature
    last: int  # line of the closing brace
    nesting: int  # control blocks inside each other

    @property
    def n_lines(self):
        return self.last - self.first + 1


@dataclass
class CppText:
    text: str
    lines: list = field(init=False)
    code: str = field(init=False)  # comments and insides of literals blanked, same length
    comments: list = field(init=False)  # (line, text of one line of a comment)

    def __post_init__(self):
        self.lines = self.text.split("\n")
        self._line_starts = [0] + [m.end() for m in re.finditer("\n", self.text)]
        self.comments = []
        self.code = _TOKEN.sub(self._hide, self.text)

    def _hide(self, match):
        token = match[0]
        if match["comment"] is not None:
            first = self.line_at(match.start())
            self.comments += [(first + i, part) for i, part in enumerate(token.split("\n"))]
            return _blank(token)
        if match["raw"] is not None or match["text"] is not None or match["char"] is not None:
            return token[0] + _blank(token[1:-1]) + token[-1]
        return token

    def line_at(self, offset):
        return bisect.bisect_right(self._line_starts, offset)

    def includes(self):
        """(line, path, is_quoted)."""
        found = []
        for n, line in enumerate(self.lines, 1):
            if match := _INCLUDE.match(line):
                found.append((n, match[1] or match[2], match[1] is not None))
        return found

    def find(self, pattern):
        """(line, text) of each match of a compiled pattern in the code."""
        for match in pattern.finditer(self.code):
            blanks = len(match[0]) - len(match[0].lstrip())
            yield self.line_at(match.start() + blanks), match[0].strip()

    def functions(self):
        return _Scanner(_DIRECTIVE.sub(lambda m: _blank(m[0]), self.code)).run()


class _Scanner:
    """Finds function bodies by their braces. Lambdas and blocks belong to the function around them."""

    def __init__(self, code):
        self.code = code
        self.found = []
        self.stack = []  # (kind, start of the head)
        self.boundary = 0  # where the present statement or declaration began
        self.line_starts = [0] + [m.end() for m in re.finditer("\n", code)]

    def line_at(self, offset):
        return bisect.bisect_right(self.line_starts, offset)

    def run(self):
        for match in re.finditer(r"[{};]", self.code):
            at = match.start()
            if match[0] == "{":
                self.open(at)
            elif match[0] == "}":
                self.close(at)
            elif self.parentheses(at) == 0:
                self.boundary = at + 1
        return self.found

    def parentheses(self, at):
        """Open parentheses of the statement: the semicolons of a for are no boundary."""
        head = self.code[self.boundary : at]
        return head.count("(") - head.count(")")

    def in_function(self):
        return any(kind == "function" for kind, _ in self.stack)

    def open(self, at):
        head = self.code[self.boundary : at]
        word = re.match(r"\s*(?:\}\s*)?([A-Za-z_]\w*)?", head)[1]
        if self.in_function():
            kind = "control" if word in _CONTROL else "inner"
        elif re.match(r"\s*(?:inline\s+)?(?:namespace|extern)\b", head):
            kind = "scope"
        elif _SIGNATURE.search(head) and word not in _CONTROL:
            kind = "function"
        elif re.search(r"\b(?:class|struct|union|enum)\b[^()=]*$|\b(?:class|struct)\s+SLUICE_", head):
            kind = "scope"
        else:
            kind = "init"
        self.stack.append((kind, self.boundary))
        if kind == "function":
            self.deepest = 0
        if kind == "control":
            self.deepest = max(self.deepest, sum(k == "control" for k, _ in self.stack))
        if kind != "init":
            self.boundary = at + 1

    def close(self, at):
        if not self.stack:
            return
        kind, start = self.stack.pop()
        if kind == "init":  # a_{x} in an initialiser list: the declaration goes on
            self.boundary = start
            return
        self.boundary = at + 1
        if kind == "function":
            head = self.code[start:at].split("{", 1)[0]
            first = start + len(head) - len(head.lstrip())
            name = re.search(r"([~\w:]+(?:\([^()]*\))?)\s*\(", head)
            self.found.append(
                Function(
                    name=name[1].strip() if name else "?",
                    first=self.line_at(first),
                    last=self.line_at(at),
                    nesting=self.deepest,
                )
            )
