// Runs samples through the model and writes what it answers and how long it took.
// model INPUTS OUTPUTS: INPUTS holds SAMPLES x BEATS int32, OUTPUTS gets for each sample its cycles and RESULTS int64.
#include <cstdint>
#include <cstdio>
#include <vector>
#include "Vmodel.h"
#include "verilated.h"

double sc_time_stamp() { return 0; }  // older Verilators ask for it

static void tick(Vmodel &model) {
    model.clk = 1;
    model.eval();
    model.clk = 0;
    model.eval();
}

int main(int argc, char **argv) {
    if (argc != 3) return 2;
    std::FILE *in = std::fopen(argv[1], "rb"), *out = std::fopen(argv[2], "wb");
    if (!in || !out) return 2;
    Vmodel model;
    model.clk = 0;
    model.rst = 1;
    model.in_valid = 0;
    model.out_ready = 0;
    model.eval();
    tick(model);
    model.rst = 0;
    model.eval();
    std::vector<int32_t> sample(BEATS);
    while (std::fread(sample.data(), sizeof(int32_t), BEATS, in) == BEATS) {
        int64_t cycles = 0;
        model.in_valid = 1;
        for (int32_t feature : sample) {
            model.in_payload = static_cast<uint32_t>(feature) & (0xffffffffu >> (32 - INPUT_BITS));
            model.eval();
            if (!model.in_ready) return 3;
            tick(model);
            cycles++;
        }
        model.in_valid = 0;
        model.eval();
        while (!model.done && cycles < LONGEST) {
            tick(model);
            cycles++;
        }
        if (!model.done) return 4;
        std::fwrite(&cycles, sizeof cycles, 1, out);
        model.out_ready = 1;
        model.eval();
        for (int number = 0; number < RESULTS;) {
            if (model.out_valid) {
                const uint64_t bits = model.out_payload;
                const int64_t value = static_cast<int64_t>(bits << (64 - RESULT_BITS)) >> (64 - RESULT_BITS);
                std::fwrite(&value, sizeof value, 1, out);
                number++;
            }
            tick(model);
        }
        model.out_ready = 0;
        model.eval();
    }
    model.final();
    return std::fclose(out) ? 2 : 0;
}
