#pragma once

#include <stdexcept>

namespace spider::emulator {

/// A broken rule of the machine. Thrown by what a lane calls; the bottom of the lane's stack catches it and
/// adds which lane it was.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace spider::emulator
