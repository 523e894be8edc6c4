/* serial_port FIRMWARE.elf MARKER TYPED: an Arduino Uno in simavr. Its serial output goes to stdout; after the line that holds
 * MARKER, TYPED is sent, and the next line that follows ends the run (without TYPED the marker's line does). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <simavr/avr_uart.h>
#include <simavr/sim_avr.h>
#include <simavr/sim_elf.h>

static char line[512];
static unsigned used;
static const char *marker, *typed;
static int marked, finished;

static void on_byte(struct avr_irq_t *irq, uint32_t value, void *parameter)
{
    (void)irq, (void)parameter;
    putchar((int)value);
    if (value != '\n') {
        if (used + 1 < sizeof line) line[used++] = (char)value;
        return;
    }
    line[used] = 0;
    used = 0;
    if (marked && *typed == 0 && line[0] && strncmp(line, "type", 4)) finished = 1;
    if (strstr(line, marker)) {
        marked = 1;
        if (*typed == 0) finished = 1;
    }
}

int main(int count, char **arguments)
{
    elf_firmware_t firmware;
    memset(&firmware, 0, sizeof firmware);
    if (count != 4 || elf_read_firmware(arguments[1], &firmware)) return 2;
    marker = arguments[2];
    typed = arguments[3];
    firmware.frequency = 16000000;
    avr_t *avr = avr_make_mcu_by_name("atmega328p");
    if (!avr) return 2;
    avr_init(avr);
    avr_load_firmware(avr, &firmware);
    uint32_t flags = 0;
    avr_ioctl(avr, AVR_IOCTL_UART_GET_FLAGS('0'), &flags);
    flags &= ~(uint32_t)(AVR_UART_FLAG_STDIO | AVR_UART_FLAG_POLL_SLEEP);
    avr_ioctl(avr, AVR_IOCTL_UART_SET_FLAGS('0'), &flags);
    avr_irq_register_notify(avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_OUTPUT), on_byte, NULL);
    avr_irq_t *input = avr_io_getirq(avr, AVR_IOCTL_UART_GETIRQ('0'), UART_IRQ_INPUT);
    avr_cycle_count_t next = 0;
    while (!finished && avr->cycle < 16000000ull * 60) {
        const uint32_t before = avr->pc;
        const uint16_t opcode = (uint16_t)(avr->flash[before] | avr->flash[before + 1] << 8);
        const uint16_t skipped = (uint16_t)(avr->flash[before + 2] | avr->flash[before + 3] << 8);
        const int state = avr_run(avr);
        if (state == cpu_Crashed || state == cpu_Done) return 3;
        /* simavr 1.6 skips two words over ADIW and SBIW with (K & 15) >= 12 */
        const int skip = (opcode & 0xfc00) == 0x1000 || (opcode & 0xfc08) == 0xfc00 || (opcode & 0xfd00) == 0x9900;
        if (skip && avr->pc == before + 6 && (skipped & 0xfe00) == 0x9600 && (skipped & 15) >= 12) avr->pc = before + 4;
        if (!marked) next = avr->cycle + 400000;
        if (marked && *typed && avr->cycle > next) {
            avr_raise_irq(input, (unsigned char)*typed++);
            next = avr->cycle + 40000;
        }
    }
    return finished ? 0 : 4;
}
