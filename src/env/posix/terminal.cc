#include "env/posix/terminal.h"

#include <unistd.h>

namespace sluice {

bool StderrIsTerminal() { return isatty(STDERR_FILENO) == 1; }

}  // namespace sluice
