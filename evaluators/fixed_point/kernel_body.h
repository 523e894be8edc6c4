/* The part of the kernel that depends on the rounding; kernel.c includes it once for each. */

#include "lanes_body.h"
#include "elements_body.h"
#include "products_body.h"

static void NAME(candidate)(Machine *m, int16_t *outputs)
{
    const Program *program = m->program;
    for (int32_t i = 0; i < program->step_count; i++) {
        const Step *s = &program->steps[i];
        if (s->packs && NAME(is_packed)(s, m->rows + (int64_t)s->row * COLUMNS)) NAME(pack)(m, s);
    }
    for (int32_t block = 0; block < program->block_count && !*program->stop; block++) {
        if (program->input_variable >= 0)
            memcpy(lanes_of(m, program->input_variable, 0), m->input + block * m->input_elements * LANES,
                   (size_t)m->input_elements * LANES * sizeof(int16_t));
        for (int32_t i = 0; i < program->step_count; i++) {
            const Step *s = &program->steps[i];
            const int32_t *row = m->rows + (int64_t)s->row * COLUMNS;
            switch (s->opcode) {
            case OP_Fill: NAME(fill)(m, s, row); break;
            case OP_Add: case OP_Subtract: case OP_Multiply: case OP_Select: NAME(binary)(m, s, row); break;
            case OP_Dot:
                if (NAME(is_packed)(s, row)) NAME(dot_packed)(m, s, row);
                else NAME(dot_general)(m, s, row);
                break;
            case OP_MaxPool: NAME(maxpool)(m, s, row); break;
            case OP_Table: NAME(table)(m, s); break;
            case OP_NormaliseL2: NAME(normalise)(m, s, row); break;
            case OP_ArgMax: NAME(argmax)(m, s); sum_margins(m, s, block); break;
            case OP_Sign: NAME(sign)(m, s); sum_margins(m, s, block); break;
            default: NAME(pointwise)(m, s, row); break;
            }
        }
        const int32_t first = block * LANES;
        const int32_t count = program->sample_count - first < LANES ? program->sample_count - first : LANES;
        for (int32_t k = 0; k < program->result_size; k++) {
            const int16_t *from = lanes_of(m, program->result_variable, program->result[k]);
            for (int32_t l = 0; l < count; l++) outputs[(int64_t)(first + l) * program->result_size + k] = from[l];
        }
    }
}
