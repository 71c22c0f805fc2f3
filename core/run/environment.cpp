// SPDX-License-Identifier: GPL-3.0-or-later
#include <chrono>
#include <ctime>
#include <fstream>
#include <thread>

#include "run/runtrace.h"

namespace tpscope {
namespace {

// "AMD EPYC", from the first "model name" of /proc/cpuinfo; what the kernel says of no x86 machine is another key.
std::string cpuModel() {
    std::ifstream info("/proc/cpuinfo");
    std::string line;
    while (std::getline(info, line)) {
        const std::size_t colon = line.find(':');
        if (colon == std::string::npos)
            continue;
        const std::string key = line.substr(0, line.find_last_not_of(" \t", colon - 1) + 1);
        const std::size_t value = line.find_first_not_of(" \t", colon + 1);
        if ((key == "model name" || key == "Model" || key == "Processor") && value != std::string::npos)
            return line.substr(value);
    }
    return "unknown CPU";
}

std::string nowIso8601() {
    const std::time_t now = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::tm utc{};
    ::gmtime_r(&now, &utc);
    char text[32];
    std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc);
    return text;
}

} // namespace

Environment currentEnvironment() {
    Environment environment;
    const unsigned cores = std::thread::hardware_concurrency();
    environment.machine = cpuModel() + ", " + std::to_string(cores) + (cores == 1 ? " core" : " cores");
    environment.versions["tpscope"] = TPSCOPE_VERSION;
    environment.date = nowIso8601();
    return environment;
}

} // namespace tpscope
