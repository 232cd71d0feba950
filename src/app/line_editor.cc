#include "app/line_editor.h"

#include <histedit.h>

#include <clocale>
#include <cstdio>
#include <cwchar>

#include "app/command.h"
#include "base/check.h"
#include "env/posix/terminal.h"

namespace sluice::app {
namespace {

constexpr int kHistoryLines = 1000;

// Without a locale of UTF-8 the editor would take a character for several.
void ReadUtf8() {
  const char* locale = std::setlocale(LC_CTYPE, "");
  const std::string name = locale != nullptr ? locale : "C";
  if (name == "C" || name == "POSIX") std::setlocale(LC_CTYPE, "C.UTF-8");
}

}  // namespace

struct LineEditor::State {
  State() {
    if (!is_terminal) return;
    ReadUtf8();
    editor = el_init("sluice", stdin, stdout, stderr);
    SLUICE_CHECK(editor != nullptr);
    history = history_init();
    HistEvent event;
    ::history(history, &event, H_SETSIZE, kHistoryLines);
    el_set(editor, EL_CLIENTDATA, this);
    el_set(editor, EL_PROMPT, &Prompt);
    el_set(editor, EL_HIST, &::history, history);
    el_set(editor, EL_EDITOR, "emacs");
    // While a line is typed Ctrl-C is a key; while an answer runs it is a signal.
    el_set(editor, EL_SETTY, "-d", "-isig", nullptr);
    // The narrow form of it copies the names and never gives them back.
    el_wset(editor, EL_ADDFN, L"cancel-line", L"Give up this line.", &Cancel);
    el_set(editor, EL_BIND, "^C", "cancel-line", nullptr);
  }
  ~State() {
    if (editor == nullptr) return;
    history_end(history);
    el_end(editor);
  }

  static char* Prompt(EditLine* e) { return Of(e).prompt.data(); }
  static unsigned char Cancel(EditLine* e, wint_t) {
    State& self = Of(e);
    const auto* typed = el_line(e);
    self.cancelled_text.assign(typed->buffer, static_cast<size_t>(typed->lastchar - typed->buffer));
    self.is_cancelled = true;
    std::fputs("^C\n", stdout);
    return CC_EOF;
  }
  static State& Of(EditLine* e) {
    void* self = nullptr;
    el_get(e, EL_CLIENTDATA, &self);
    return *static_cast<State*>(self);
  }

  const bool is_terminal = StdinIsTerminal() && StdoutIsTerminal();
  EditLine* editor = nullptr;
  History* history = nullptr;
  std::string prompt;
  std::string cancelled_text;
  bool is_cancelled = false;
};

LineEditor::LineEditor() : state_(std::make_unique<State>()) {}
LineEditor::~LineEditor() = default;

bool LineEditor::is_terminal() const { return state_->is_terminal; }

LineEditor::Got LineEditor::Read(const std::string& prompt, std::string& line) {
  line.clear();
  if (!state_->is_terminal) {
    for (int c; (c = std::fgetc(stdin)) != EOF && c != '\n';) line += static_cast<char>(c);
    return std::feof(stdin) && line.empty() ? Got::kEnd : Got::kLine;
  }
  State& s = *state_;
  s.prompt = prompt;
  s.is_cancelled = false;
  int n = 0;
  el_set(s.editor, EL_PREP_TERM, 1);  // before the prompt shows: keys count from then on
  const char* text = el_gets(s.editor, &n);
  if (s.is_cancelled) {
    line = s.cancelled_text;
    el_reset(s.editor);
    return Got::kCancelled;
  }
  if (text == nullptr || n <= 0) return Got::kEnd;
  line.assign(text, static_cast<size_t>(n));
  if (line.ends_with('\n')) line.pop_back();
  HistEvent event;
  if (!line.empty()) ::history(s.history, &event, H_ENTER, line.c_str());
  return Got::kLine;
}

}  // namespace sluice::app
