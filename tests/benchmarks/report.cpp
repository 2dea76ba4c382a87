#include "report.h"

#include <cmath>
#include <cstdarg>
#include <cstdio>
#include <fstream>
#include <stdexcept>
#include <utility>

namespace bench {
namespace {

/// One cell of a file: text, or a number, or nothing.
struct Cell {
  const char* column;
  std::string text;
  bool is_number;
};

std::string format(const char* pattern, ...) {
  va_list arguments;
  va_start(arguments, pattern);
  char buffer[256];
  std::vsnprintf(buffer, sizeof(buffer), pattern, arguments);
  va_end(arguments);
  return buffer;
}

Cell text(const char* column, std::string value) {
  return {column, std::move(value), false};
}

/// Six significant digits: more than any of these measurements has.
Cell number(const char* column, std::optional<double> value) {
  return {column, value && std::isfinite(*value) ? format("%.6g", *value) : std::string(), true};
}

Cell count(const char* column, std::int64_t value) {
  return {column, std::to_string(value), true};
}

std::vector<Cell> cells(const RunFacts& facts, const Row& row) {
  return {text("date", facts.date),
          text("device", facts.device),
          text("driver", facts.driver),
          text("label", row.label),
          text("kernel", row.kernel),
          text("detail", row.detail),
          count("dimensions", row.dimensions),
          text("storage", row.storage),
          text("size", row.size),
          count("offset", facts.offset),
          text("mode", row.mode),
          text("method", row.method),
          count("launches", row.launches),
          count("fields", row.fields),
          number("time_us", row.time_us),
          number("spread_us", row.spread_us),
          number("copy_us", row.copy_us),
          number("ratio", row.ratio),
          number("gstencils", row.gstencils),
          number("gigabytes_per_s", row.gigabytes),
          number("tensor_us", row.tensor_us),
          number("floor_us", row.floor_us),
          number("relative_l2", row.relative_l2),
          number("of_bound", row.of_bound),
          number("sm_mhz", row.sm_mhz),
          number("power_w", row.power_w),
          {"seed", std::to_string(facts.seed), true},
          text("note", row.note)};
}

std::string quoted_csv(const std::string& value) {
  if (value.find_first_of(",\"\n") == std::string::npos) return value;
  std::string quoted = "\"";
  for (const char c : value) quoted += c == '"' ? std::string("\"\"") : std::string(1, c);
  return quoted + '"';
}

std::string quoted_json(const std::string& value) {
  std::string quoted = "\"";
  for (const char c : value) {
    if (c == '"' || c == '\\') quoted += '\\';
    quoted += static_cast<unsigned char>(c) < 0x20 ? format("\\u%04x", c) : std::string(1, c);
  }
  return quoted + '"';
}

template <class Part>
std::string join(const std::vector<Cell>& all, Part part) {
  std::string line;
  for (const Cell& cell : all) {
    if (&cell != &all.front()) line += ',';
    line += part(cell);
  }
  return line;
}

std::string column(const char* pattern, std::optional<double> value, double scale = 1) {
  // As wide as a number would be: the width is what follows the percent sign.
  return value ? format(pattern, *value * scale) : format("%*s", std::atoi(pattern + 1), "-");
}

}  // namespace

std::string csv_header() {
  return join(cells({}, {}), [](const Cell& cell) { return std::string(cell.column); });
}

std::string csv_line(const RunFacts& facts, const Row& row) {
  return join(cells(facts, row), [](const Cell& cell) { return quoted_csv(cell.text); });
}

std::string to_json(const RunFacts& facts, const std::vector<Row>& rows) {
  std::string json = "[";
  for (const Row& row : rows) {
    json += json.size() > 1 ? ",\n {" : "\n {";
    json += join(cells(facts, row), [](const Cell& cell) {
      const std::string value =
          cell.is_number ? (cell.text.empty() ? "null" : cell.text) : quoted_json(cell.text);
      return quoted_json(cell.column) + ": " + value;
    });
    json += "}";
  }
  return json + "\n]\n";
}

std::string table_header(const RunFacts& facts) {
  return facts.device + ", driver " + facts.driver + ", " + facts.date + ", seed " +
         std::to_string(facts.seed) +
         (facts.offset == 0 ? std::string() : ", rows shifted by " + std::to_string(facts.offset)) + "\n" +
         format("%-9s %-22s %-5s %-13s %-9s %-6s %10s %8s %10s %7s %8s %7s %8s %9s %8s %5s %5s\n", "label",
                "kernel", "type", "size", "mode", "method", "time us", "spread", "copy us", "x copy", "GSt/s",
                "GB/s", "floor us", "rel. L2", "of bound", "MHz", "W");
}

std::string table_line(const Row& row) {
  std::string line = format("%-9s %-22s %-5s %-13s %-9s %-6s ", row.label.c_str(), row.kernel.c_str(),
                            row.storage.c_str(), row.size.c_str(), row.mode.c_str(), row.method.c_str());
  line += column("%10.2f", row.time_us) + column("%9.2f", row.spread_us) + column("%11.2f", row.copy_us) +
          column("%8.3f", row.ratio) + column("%9.1f", row.gstencils) + column("%8.0f", row.gigabytes) +
          column("%9.1f", row.floor_us) + column("%10.1e", row.relative_l2) + column("%9.3f", row.of_bound) +
          column("%6.0f", row.sm_mhz) + column("%6.0f", row.power_w);
  for (const std::string& words : {row.detail, row.note}) line += words.empty() ? "" : "  " + words;
  return line + "\n";
}

Report::Report(RunFacts facts, std::ostream& table, std::string csv_path, std::string json_path)
    : facts_(std::move(facts)),
      table_(table),
      csv_path_(std::move(csv_path)),
      json_path_(std::move(json_path)) {
  if (!csv_path_.empty()) {
    std::ifstream present(csv_path_);
    std::string header;
    if (std::getline(present, header)) {
      if (header != csv_header()) {
        throw std::runtime_error(csv_path_ + " has other columns: name a new file");
      }
    } else if (!(std::ofstream(csv_path_) << csv_header() << "\n")) {
      throw std::runtime_error("cannot write " + csv_path_);
    }
  }
  table_ << table_header(facts_) << std::flush;
}

void Report::add(const Row& row) {
  rows_.push_back(row);
  table_ << table_line(row) << std::flush;
  if (csv_path_.empty()) return;
  std::ofstream file(csv_path_, std::ios::app);
  if (!(file << csv_line(facts_, row) << "\n")) throw std::runtime_error("cannot write " + csv_path_);
}

void Report::finish() const {
  if (json_path_.empty()) return;
  std::ofstream file(json_path_);
  if (!(file << to_json(facts_, rows_))) throw std::runtime_error("cannot write " + json_path_);
}

}  // namespace bench
