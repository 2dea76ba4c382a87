#include "lane_fiber.h"

#include <boost/context/protected_fixedsize_stack.hpp>

#include <mutex>
#include <utility>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#define SPIDER_ADDRESS_SANITIZER 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define SPIDER_ADDRESS_SANITIZER 1
#endif
#endif
#if defined(SPIDER_ADDRESS_SANITIZER)
#include <sanitizer/common_interface_defs.h>
#endif

namespace spider::emulator {

namespace {

using boost::context::stack_context;

#if defined(SPIDER_ADDRESS_SANITIZER)
constexpr std::size_t stack_bytes = std::size_t{512} * 1024;
#else
constexpr std::size_t stack_bytes = std::size_t{128} * 1024;
#endif

/// Stacks that no fiber uses now; mapping a new one costs more than a small launch.
class StackPool {
 public:
  StackPool() = default;
  StackPool(const StackPool&) = delete;
  StackPool& operator=(const StackPool&) = delete;
  ~StackPool() {
    for (stack_context& stack : free_) source_.deallocate(stack);
  }

  stack_context take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return source_.allocate();
    const stack_context stack = free_.back();
    free_.pop_back();
    return stack;
  }

  void give_back(const stack_context& stack) {
    const std::lock_guard lock(mutex_);
    free_.push_back(stack);
  }

 private:
  std::mutex mutex_;
  boost::context::protected_fixedsize_stack source_{stack_bytes};
  std::vector<stack_context> free_;
};

StackPool& stack_pool() {
  static StackPool pool;
  return pool;
}

/// The allocator interface that boost::context requires.
struct PooledStack {
  static stack_context allocate() { return stack_pool().take(); }
  static void deallocate(stack_context& stack) { stack_pool().give_back(stack); }
};

#if defined(SPIDER_ADDRESS_SANITIZER)
void* leave_stack(const void* next_stack, std::size_t next_size) {
  void* saved = nullptr;
  __sanitizer_start_switch_fiber(&saved, next_stack, next_size);
  return saved;
}
void enter_stack(void* saved, const void** last_stack, std::size_t* last_size) {
  __sanitizer_finish_switch_fiber(saved, last_stack, last_size);
}
#else
void* leave_stack(const void* /*next_stack*/, std::size_t /*next_size*/) {
  return nullptr;
}
void enter_stack(void* /*saved*/, const void** /*last_stack*/, std::size_t* /*last_size*/) {}
#endif

}  // namespace

LaneFiber::LaneFiber(std::function<void()> body) : body_(std::move(body)) {
  const stack_context stack = PooledStack::allocate();
  own_stack_size_ = stack.size;
  own_stack_ = static_cast<const char*>(stack.sp) - stack.size;
  inside_ =
      boost::context::fiber(std::allocator_arg, boost::context::preallocated(stack.sp, stack.size, stack),
                            PooledStack{}, [this](boost::context::fiber&& resumer) {
                              outside_ = std::move(resumer);
                              enter_stack(nullptr, &outer_stack_, &outer_stack_size_);
                              body_();
                              leave_stack(outer_stack_, outer_stack_size_);
                              return std::move(outside_);
                            });
}

void LaneFiber::resume() {
  void* const saved = leave_stack(own_stack_, own_stack_size_);
  inside_ = std::move(inside_).resume();
  enter_stack(saved, nullptr, nullptr);
}

void LaneFiber::suspend() {
  void* const saved = leave_stack(outer_stack_, outer_stack_size_);
  outside_ = std::move(outside_).resume();
  enter_stack(saved, &outer_stack_, &outer_stack_size_);
}

}  // namespace spider::emulator
