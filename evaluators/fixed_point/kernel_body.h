/* The part of the kernel that depends on the rounding; kernel.c includes it once for each. */

#ifdef WIDE_VALUES
#include "wide_lanes_body.h"
#include "lane_by_lane_body.h"
#include "wide_body.h"
#else
#include "lanes_body.h"
#include "lane_by_lane_body.h"
#include "elements_body.h"
#include "products_body.h"
#endif

static void NAME(step)(Machine *m, int32_t block, const Step *s)
{
    const int32_t *row = m->rows + (int64_t)s->row * COLUMNS;
    switch (s->opcode) {
    case OP_Fill: NAME(fill)(m, s, row); break;
    case OP_Add: case OP_Subtract: case OP_Multiply: NAME(binary)(m, s, row); break;
    case OP_Select: NAME(binary)(m, s, row); sum_margins(m, block); break;
    case OP_Dot: NAME(dot)(m, s, row); break;
    case OP_MaxPool: NAME(maxpool)(m, s, row); break;
    case OP_Table: NAME(table)(m, s, row); break;
    case OP_NormaliseL2: NAME(normalise)(m, s, row); break;
    case OP_ArgMax: NAME(argmax)(m, s); sum_margins(m, block); break;
    case OP_Sign: NAME(sign)(m, s); sum_margins(m, block); break;
    default: NAME(pointwise)(m, s, row); break;
    }
    m->executed++;
}

/* The steps from `start` to before `end`, inside so many loops, on one block of samples. */
static void NAME(steps)(Machine *m, int32_t block, int32_t start, int32_t end, int32_t loops)
{
    for (int32_t i = start; i < end; i++) {
        const Step *s = &m->program->steps[i];
        if (s->opcode == OP_Loop) {
            for (int32_t k = 0; k < s->n && !*m->program->stop; k++) {
                m->indices[loops] = k;
                NAME(steps)(m, block, i + 1, i + 1 + s->window, loops + 1);
            }
            i += s->window;
        } else {
            NAME(step)(m, block, moved_step(m, i, loops));
        }
    }
}
