#include <unistd.h>

#include <csignal>
#include <cstdlib>
#include <iostream>
#include <string>
#include <string_view>
#include <vector>

#include "cli/run.h"

namespace {

/// The value of an environment variable; empty where it is not set.
std::string_view value_of(const char* variable) {
  const char* value = std::getenv(variable);
  return value == nullptr ? std::string_view() : value;
}

/// Colours are for terminals; users may disable them (https://no-color.org).
bool wants_colour() {
  const std::string_view terminal = value_of("TERM");
  return isatty(STDERR_FILENO) != 0 && value_of("NO_COLOR").empty() && !terminal.empty() &&
         terminal != "dumb";
}

}  // namespace

int main(int argc, char** argv) {
  // At a file size limit, write() shall fail and be reported; the signal would end the program.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  return spidergen::cli::run(std::vector<std::string>(argv + 1, argv + argc), std::cin, std::cout, std::cerr,
                             wants_colour());
}
