#include <csignal>
#include <iostream>
#include <string>
#include <vector>

#include "cli/run.h"

int main(int argc, char** argv) {
  // Beyond a limit on the size of files, write() shall fail and be reported; the signal would end us before.
  (void)std::signal(SIGXFSZ, SIG_IGN);
  return spidergen::cli::run(std::vector<std::string>(argv + 1, argv + argc), std::cin, std::cout, std::cerr);
}
