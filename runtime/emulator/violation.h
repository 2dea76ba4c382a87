#pragma once

#include <stdexcept>

namespace spider::emulator {

/// A rule of the machine was broken. Thrown by what a lane calls and caught at the bottom of that lane's
/// stack, which adds who it was.
class Violation : public std::runtime_error {
 public:
  using std::runtime_error::runtime_error;
};

}  // namespace spider::emulator
