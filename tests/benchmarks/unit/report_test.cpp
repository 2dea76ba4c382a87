#include "report.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <limits>
#include <sstream>
#include <stdexcept>
#include <string>

#include "prediction.h"
#include "statistics.h"

namespace bench {
namespace {

const RunFacts facts{"2026-01-02T03:04:05Z", "NVIDIA H200, \"mine\"", "580.1", 7, 0};

Row example() {
  Row row;
  row.label = "sparse";
  row.kernel = "box2d_r1";
  row.dimensions = 2;
  row.storage = "f16";
  row.size = "10240x10240";
  row.mode = "burst";
  row.method = "single";
  row.launches = 25;
  row.fields = 1;
  row.time_us = 118.25;
  row.ratio = 1.0625;
  return row;
}

/// A file that is gone afterwards.
struct TemporaryFile {
  std::string path = (std::filesystem::temp_directory_path() /
                      ("spider-bench-" + std::to_string(reinterpret_cast<std::uintptr_t>(this)) + ".csv"))
                         .string();
  TemporaryFile() { std::filesystem::remove(path); }
  ~TemporaryFile() { std::filesystem::remove(path); }
  TemporaryFile(const TemporaryFile&) = delete;
  TemporaryFile& operator=(const TemporaryFile&) = delete;
  [[nodiscard]] std::string text() const {
    std::ostringstream all;
    all << std::ifstream(path).rdbuf();
    return all.str();
  }
};

TEST(Report, CsvQuotesAndLeavesOutWhatIsAbsent) {
  const std::string line = csv_line(facts, example());
  EXPECT_EQ(
      line,
      "2026-01-02T03:04:05Z,\"NVIDIA H200, \"\"mine\"\"\",580.1,sparse,box2d_r1,,2,f16,10240x10240,0,burst,"
      "single,25,1,118.25,,,1.0625,,,,,,,,,7,");
  const std::string header = csv_header();
  EXPECT_EQ(header.rfind("date,device,driver,label,kernel,detail,", 0), 0U);
  EXPECT_EQ(std::count(header.begin(), header.end(), ','), std::count(line.begin(), line.end(), ',') - 1);
}

TEST(Report, TheExampleOfFiguresPyHasTheseColumns) {
  std::ifstream sample(std::string(SPIDER_SOURCE_DIR) + "/tests/benchmarks/unit/sample.csv");
  std::string header;
  std::getline(sample, header);
  EXPECT_EQ(header, csv_header());
}

TEST(Report, JsonHasNumbersTextAndNull) {
  Row row = example();
  row.note = "a \\ and\na line";
  row.of_bound = std::numeric_limits<double>::infinity();
  const std::string json = to_json(facts, {row, example()});
  for (const char* part :
       {R"("device": "NVIDIA H200, \"mine\"")", R"("time_us": 118.25)", R"("sm_mhz": null)",
        R"("of_bound": null)", R"("note": "a \\ and\u000aa line")", R"("launches": 25)"}) {
    EXPECT_NE(json.find(part), std::string::npos) << part << "\n" << json;
  }
}

TEST(Report, AppendsToItsOwnCsvAndRefusesAnother) {
  const TemporaryFile file;
  std::ostringstream table;
  for (int run = 0; run < 2; ++run) Report(facts, table, file.path, "").add(example());
  const std::string line = csv_line(facts, example()) + "\n";
  EXPECT_EQ(file.text(), csv_header() + "\n" + line + line);
  std::ofstream(file.path) << "something,else\n";
  EXPECT_THROW(Report(facts, table, file.path, ""), std::runtime_error);
  EXPECT_THROW(Report(facts, table, "/nowhere/at/all.csv", ""), std::runtime_error);
}

TEST(Report, TableColumnsStayInPlace) {
  Row empty;
  empty.kernel = "box2d_r1";
  const std::string header = table_header(facts);
  const std::size_t width = header.size() - header.find('\n') - 1;
  EXPECT_EQ(table_line(empty).size(), width);
  EXPECT_EQ(table_line(example()).size(), width);
}

TEST(Statistics, QuantilesAreLinearBetweenRanks) {
  EXPECT_DOUBLE_EQ(quantile({3, 1, 2}, 0.5), 2);
  EXPECT_DOUBLE_EQ(quantile({4, 1, 2, 3}, 0.5), 2.5);
  EXPECT_DOUBLE_EQ(quantile({5}, 0.9), 5);
  EXPECT_THROW(static_cast<void>(quantile({}, 0.5)), std::invalid_argument);
  const Summary summary = summarise({10, 0, 1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_DOUBLE_EQ(summary.low, 1);
  EXPECT_DOUBLE_EQ(summary.median, 5);
  EXPECT_DOUBLE_EQ(summary.high, 9);
}

TEST(Prediction, IsTheLargerOfCopyAndTensorCores) {
  // README.md: 15 products on 132 multiprocessors take 107 us, 3 take 21.
  const auto sparse = mma_nanoseconds(90, "sparse");
  const Prediction wide = predict(102, 10240 * 10240, 15, 132, sparse);
  EXPECT_NEAR(wide.tensor_us.value_or(0), 107, 0.5);
  EXPECT_EQ(wide.floor_us, wide.tensor_us);
  const Prediction narrow = predict(102, 10240 * 10240, 3, 132, sparse);
  EXPECT_NEAR(narrow.tensor_us.value_or(0), 21.4, 0.1);
  EXPECT_EQ(narrow.floor_us, 102);
}

TEST(Prediction, ClaimsNothingForWhatWasNotMeasured) {
  EXPECT_EQ(mma_nanoseconds(80, "sparse"), std::nullopt);
  EXPECT_EQ(mma_nanoseconds(90, "cuda"), std::nullopt);
  EXPECT_EQ(mma_nanoseconds(90, "sparse_element"), 4.60);
  EXPECT_EQ(mma_nanoseconds(90, "dense_none"), 3.47);
  EXPECT_EQ(mma_nanoseconds(90, "sparsest"), std::nullopt);
  EXPECT_EQ(predict(50, 1000, 15, 132, std::nullopt).floor_us, 50);
}

}  // namespace
}  // namespace bench
