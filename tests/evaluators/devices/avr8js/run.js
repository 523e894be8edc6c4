// Runs firmware of the harness in avr8js: node run.js REQUEST.json, answers JSON on stdout.
//
// Request: flash (a file), ramBytes, and for the samples: input (address), inputs (base64, one a sample), output, outputBytes.
// The marks are those of evaluators/avr/shim.c: 1 and 2 written to GPIOR0.
const fs = require("fs");
const { CPU, avrInstruction } = require("avr8js");

const GPIOR0 = 0x3e;
const request = JSON.parse(fs.readFileSync(process.argv[2], "utf8"));
const image = fs.readFileSync(request.flash);
const program = new Uint16Array(request.flashBytes / 2);
for (let i = 0; i < image.length; i++) program[i >> 1] |= image[i] << (8 * (i & 1));
const cpu = new CPU(program, request.ramBytes);

let started = 0;
let ended = 0;
let atStart = false;
cpu.writeHooks[GPIOR0] = (value) => {
  cpu.data[GPIOR0] = value;
  if (value === 1) {
    started = cpu.cycles;
    atStart = true;
  }
  if (value === 2) ended = cpu.cycles;
  return true;
};

function runToStart() {
  const end = cpu.cycles + request.mostCycles;
  atStart = false;
  while (!atStart) {
    if (cpu.cycles > end) throw new Error("too many cycles");
    avrInstruction(cpu);
  }
}

const cycles = [];
const outputs = [];
runToStart();
for (const sample of request.inputs) {
  cpu.data.set(Buffer.from(sample, "base64"), request.input);
  const began = started;
  runToStart();
  cycles.push(ended - began - 1);
  outputs.push(Buffer.from(cpu.data.subarray(request.output, request.output + request.outputBytes)).toString("base64"));
}
console.log(JSON.stringify({ cycles, outputs }));
