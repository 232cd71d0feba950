// Whether somebody looks on. Pure question, any thread.

#pragma once

namespace sluice {

bool StderrIsTerminal();

}  // namespace sluice
