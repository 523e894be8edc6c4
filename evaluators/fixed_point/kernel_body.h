/* The part of the kernel that depends on the rounding; kernel.c includes it once for each. */

#include "lanes_body.h"
#include "elements_body.h"
#include "products_body.h"

/* The steps from `start` on, on one block of samples. */
static void NAME(steps)(Machine *m, int32_t block, int32_t start)
{
    const Program *program = m->program;
    for (int32_t i = start; i < program->step_count; i++) {
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
}
