/* An order of a program's steps that takes at most so many registers, for those who ask from Python. */
#include "orders.h"

int kilotune_schedule(int32_t steps, int32_t registers, const int32_t *operand, const uint8_t *apart, const int32_t *uses,
                      int64_t sets, int32_t *order)
{
    return fitting_order(steps, registers, operand, apart, uses, sets, order);
}
