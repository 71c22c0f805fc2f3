// SPDX-License-Identifier: GPL-3.0-or-later
#pragma once

#include <filesystem>
#include <map>
#include <nlohmann/json.hpp>
#include <stop_token>
#include <string>
#include <vector>

#include "base/error.h"
#include "plan/catalogue.h"
#include "run/decoderunner.h"

// The catalogue of an installed transformers.
namespace tpscope::cli {

struct ImportedPlan {
    CatalogueEntry entry;
    std::string text; // of its file, YAML
};

struct ImportedCatalogue {
    std::string upstream; // "transformers 5.24.0"
    std::map<std::string, ImportedPlan> plans; // by model type
    struct Failure {
        std::string modelType;
        std::string message; // the library's own words
    };
    std::vector<Failure> failures; // families that carry a plan and could not be built
};

// Builds a model a family without weights (resources/probe/tpscope_plans.py) and asks it for its plan; some 80 s for
// all of 5.24. python: as --python; "": the one the product finds. only: these model types, empty all. Blocking.
// Errors: those of pythonOf() and findPython(), NotFound (a model type of `only` that the library does not have or that
// carries no plan), RunFailed, Cancelled.
Result<ImportedCatalogue> importCatalogue(const std::string &python, const std::vector<std::string> &only,
                                          EventSink &sink, std::stop_token stop);

// What writing a catalogue to a folder did.
struct WrittenCatalogue {
    std::vector<std::string> added, changed;
    std::size_t unchanged = 0;
    std::vector<std::string> left; // plans of the folder that this version does not have: they stay
};
// Makes the folder where it is missing. Errors: RunFailed with the path.
Result<WrittenCatalogue> writeCatalogue(const ImportedCatalogue &catalogue, const std::filesystem::path &folder);

} // namespace tpscope::cli
