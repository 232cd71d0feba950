// Whether somebody looks on. Pure question, any thread.

#pragma once

namespace sluice {

bool StdinIsTerminal();
bool StdoutIsTerminal();
bool StderrIsTerminal();

}  // namespace sluice
