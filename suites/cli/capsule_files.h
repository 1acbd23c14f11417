// Capsules as files, and the profile that a sampler is judged by.
#pragma once

#include <filesystem>
#include <string>

#include "harness/contract/sampler.h"
#include "reference/semantics.h"
#include "suites/fuzz/capsule.h"

namespace fairdraw::cli {

/// Whether a replay's argument means a file: its name ends with ".json". (No case id does.)
bool is_capsule(const std::string& argument);

/// Reads no more than a capsule may have. Throws harness::UsageError with the path and the place.
suites::fuzz::Capsule load_capsule(const std::filesystem::path& path);

/// Writes FOLDER/PROPERTY-HASH.json, whole or not at all, and returns its path; the hash is that of
/// the content. Throws harness::UsageError where the folder cannot be written, std::length_error
/// where the case is too large for a capsule.
std::filesystem::path save_capsule(const std::filesystem::path& folder,
                                   const suites::fuzz::Capsule& capsule);

/// The profile `given`, or the sampler's own where that is empty. Throws harness::UsageError.
const reference::Semantics& semantics_of(const std::string& given,
                                         const harness::SamplerDescription& sampler);

}  // namespace fairdraw::cli
