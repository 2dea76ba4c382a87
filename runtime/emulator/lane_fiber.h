#pragma once

#include <boost/context/fiber.hpp>

#include <cstddef>
#include <functional>

namespace spider::emulator {

/// A function on its own stack that can be suspended. Stacks come from a pool of the process and have a guard
/// page. The function must return before the fiber is destroyed.
class LaneFiber {
 public:
  explicit LaneFiber(std::function<void()> body);
  LaneFiber(const LaneFiber&) = delete;
  LaneFiber& operator=(const LaneFiber&) = delete;
  ~LaneFiber() = default;

  /// Runs the function from where it stopped until it stops again or returns; called outside of it.
  void resume();
  /// Stops the function; called inside of it.
  void suspend();

 private:
  std::function<void()> body_;
  boost::context::fiber inside_;   // the function, while it is stopped
  boost::context::fiber outside_;  // the resumer, while it runs
  // Stack bounds for AddressSanitizer.
  const void* outer_stack_ = nullptr;
  std::size_t outer_stack_size_ = 0;
  const void* own_stack_ = nullptr;
  std::size_t own_stack_size_ = 0;
};

}  // namespace spider::emulator
