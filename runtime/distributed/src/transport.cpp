#include "transport.h"

#include <algorithm>

namespace spider::distributed {

bool has_messages(const Exchanges& exchanges) {
  return std::any_of(exchanges.begin(), exchanges.end(),
                     [](const Exchange& exchange) { return !exchange.messages->all.empty(); });
}

BufferBytes buffer_bytes(const Exchanges& exchanges, std::size_t count) {
  BufferBytes bytes;
  for (std::size_t i = 0; i < count; ++i) {
    bytes.sent += exchanges[i].messages->send_cells * exchanges[i].element_bytes;
    bytes.received += exchanges[i].messages->receive_cells * exchanges[i].element_bytes;
  }
  return bytes;
}

}  // namespace spider::distributed
