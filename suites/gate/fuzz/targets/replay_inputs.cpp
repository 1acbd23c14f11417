// Runs a fuzz target without libFuzzer: main() passes it every input in the given archives
// (seeds.py) and folders. A finding ends this program as it would end the fuzzer.
#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <string>

#include "suites/gate/fuzz/targets/target.h"

namespace {

void run(const std::string& bytes) {
  LLVMFuzzerTestOneInput(reinterpret_cast<const std::uint8_t*>(bytes.data()), bytes.size());
}

// Returns the bytes that a line of an archive stands for: the text after the name and a space, in
// which a backslash and two hexadecimal digits are one byte.
std::string bytes_of(const std::string& line) {
  std::string bytes;
  for (std::size_t i = std::min(line.find(' '), line.size() - 1) + 1; i < line.size(); ++i) {
    const bool is_escaped = line[i] == '\\';
    bytes +=
        is_escaped ? static_cast<char>(std::stoi(line.substr(i + 1, 2), nullptr, 16)) : line[i];
    if (is_escaped) i += 2;
  }
  return bytes;
}

}  // namespace

int main(int argc, char** argv) {
  std::size_t inputs = 0;
  for (int i = 1; i < argc; ++i) {
    if (std::filesystem::is_directory(argv[i])) {
      for (const auto& entry : std::filesystem::directory_iterator(argv[i])) {
        std::ifstream file(entry.path(), std::ios::binary);
        run({std::istreambuf_iterator<char>(file), {}});
        ++inputs;
      }
    } else {
      std::ifstream archive(argv[i]);
      if (!archive) {  // a missing corpus file must not count as passed
        std::printf("cannot read %s\n", argv[i]);
        return 1;
      }
      for (std::string line; std::getline(archive, line); ++inputs) run(bytes_of(line));
    }
  }
  std::printf("%zu inputs\n", inputs);
  return inputs > 0 ? 0 : 1;  // an empty corpus must not count as passed, either
}
