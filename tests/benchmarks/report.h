/// What was measured, as rows of a table for people, of a CSV file and of a JSON file.
#pragma once

#include <cstdint>
#include <iosfwd>
#include <optional>
#include <string>
#include <vector>

namespace bench {

/// What holds for all rows of a run.
struct RunFacts {
  std::string date;    ///< UTC, ISO 8601
  std::string device;  ///< its name
  std::string driver;  ///< its version
  std::uint64_t seed = 0;
  std::int64_t offset = 0;
};

/// One kernel or baseline on one size in one mode. What was not measured is absent.
struct Row {
  std::string label;   ///< of the library, or "baseline"
  std::string kernel;  ///< or copy_engine, copy_kernel, cudnn:<kernel>
  std::string detail;  ///< what else tells it from others: preferred_steps, cuDNN's algorithm
  int dimensions = 0;
  std::string storage;
  std::string size;
  std::string mode;           ///< burst or sustained
  std::string method;         ///< single or graph
  std::int64_t launches = 0;  ///< sweeps that were timed
  int fields = 0;             ///< pairs of fields that launches took in turn
  std::optional<double> time_us, spread_us, copy_us, ratio, gstencils, gigabytes, tensor_us, floor_us;
  std::optional<double> relative_l2, of_bound, sm_mhz, power_w;
  std::string note;  ///< why something is absent
};

/// The names of a CSV file's columns, joined by commas.
[[nodiscard]] std::string csv_header();
[[nodiscard]] std::string csv_line(const RunFacts& facts, const Row& row);

/// An array of one object per row, keys as in the CSV; numbers are numbers, what is absent is null.
[[nodiscard]] std::string to_json(const RunFacts& facts, const std::vector<Row>& rows);

/// Two lines for people: facts, and names of columns.
[[nodiscard]] std::string table_header(const RunFacts& facts);
[[nodiscard]] std::string table_line(const Row& row);

/// Writes lines as they come: to a table at once, to a CSV file at once, so that an interrupted run keeps
/// what it has, and to a JSON file at the end.
class Report {
 public:
  /// Empty paths mean no file. An existing CSV file is appended to if its header is this one. Throws
  /// std::runtime_error where a file cannot be written or has other columns.
  Report(RunFacts facts, std::ostream& table, std::string csv_path, std::string json_path);

  void add(const Row& row);

  /// Writes the JSON file.
  void finish() const;

 private:
  RunFacts facts_;
  std::ostream& table_;
  std::string csv_path_;
  std::string json_path_;
  std::vector<Row> rows_;
};

}  // namespace bench
