#!/usr/bin/env python3
"""Writes a trace: the allocations of a training run, of serving, or of a DataLoader.

    traces.py training [--model gpt2-small] [--batch 4] [--sequence 512] [--steps 3]
    traces.py serving [--model gpt2-small] [--requests 12]
    traces.py loader [--batches 200]
    common: [--seed N] [-o FILE]

The sizes follow from the layers' shapes and from what such a program keeps until when. Nothing was
recorded: a trace is the same for the same arguments, and small enough to be made when it is needed.

A trace is text, one operation a line; `#` begins a comment:

    a ID BYTES STREAM    allocates a block for work on a stream; 0 is the default stream
    f ID STREAM          frees it; STREAM used it last

IDs count from 0 and are not used again. Everything is freed at the end.

training  Mixed precision as torch's autocast does it: parameters and the optimiser's state are
          float32, each linear layer works on copies of half the size that live until its backward
          pass. Attention keeps no matrix of scores. Adam works on lists of all parameters at once.
          The sequence is a little shorter or longer from step to step, as padded batches are.
          Inputs arrive on stream 1.
serving   Requests come and go, up to eight at a time. Each has a cache of keys and values in every
          layer that grows by concatenation: for each token, new blocks for all, and the old ones
          are freed. Prompts and answers differ in length.
loader    Page-locked batches of a DataLoader: images in batches of one size, the last one of each
          epoch smaller, and texts padded to their longest. A few are in flight.
"""

import argparse
import random
import sys

HALF, FLOAT, LONG = 2, 4, 8

# layers, width, heads, words in the vocabulary
MODELS = {
    "tiny": (4, 256, 4, 8192),
    "gpt2-small": (12, 768, 12, 50257),
    "gpt2-medium": (24, 1024, 16, 50257),
}


class Trace:
    """Collects operations. Blocks are named by their IDs."""

    def __init__(self):
        self.operations = []
        self.live = {}
        self.count = 0

    def take(self, size, stream=0):
        block = self.count
        self.count += 1
        self.live[block] = stream
        self.operations.append(("a", block, size, stream))
        return block

    def give(self, *blocks):
        for block in blocks:
            self.operations.append(("f", block, self.live.pop(block)))

    def brief(self, *sizes):
        """Blocks that live while one operation runs."""
        self.give(*[self.take(size) for size in sizes])

    def end(self):
        self.give(*self.live.copy())

    def write(self, file):
        for operation in self.operations:
            file.write(" ".join(map(str, operation)) + "\n")


def weights(model):
    """The number of elements of each parameter: those of the embeddings, of one layer, the last."""
    _, width, _, words = model
    norm = [width, width]
    layer = [
        *norm,
        3 * width * width,
        3 * width,
        width * width,
        width,
        *norm,
        4 * width * width,
        4 * width,
        4 * width * width,
        width,
    ]
    return [words * width, 1024 * width], layer, norm


def parameters(model):
    first, layer, last = weights(model)
    return first + layer * model[0] + last


# ---- training ------------------------------------------------------------------------------------


class Step:
    """One step: what the forward pass keeps, layer by layer, and the backward pass lets go of."""

    def __init__(self, trace, model, batch, length):
        self.trace = trace
        self.layers, self.width, self.heads, self.words = model
        self.rows = batch * length
        self.batch = batch

    def norm(self, kept):
        """The normalised rows as float32, their mean and spread, and a copy for the next layer."""
        take, rows = self.trace.take, self.rows
        whole = take(rows * self.width * FLOAT)
        kept += [take(rows * FLOAT), take(rows * FLOAT), take(rows * self.width * HALF)]
        self.trace.give(whole)

    def linear(self, kept, inputs, outputs, keep=True):
        """The weight's copy, and the result."""
        take = self.trace.take
        kept += [take(inputs * outputs * HALF), take(outputs * HALF)]
        result = take(self.rows * outputs * HALF)
        if keep:
            kept.append(result)
        return result

    def dropped(self, kept, result):
        """Dropout keeps its mask; the sum with what came before is float32, and kept."""
        take, size = self.trace.take, self.rows * self.width
        kept.append(take(size))
        thinned = take(size * HALF)
        self.trace.give(result)
        kept.append(take(size * FLOAT))
        self.trace.give(thinned)

    def forward_layer(self):
        kept, width, take = [], self.width, self.trace.take
        self.norm(kept)
        self.linear(kept, width, 3 * width)
        kept.append(take(self.rows * width * HALF))
        kept += [take(self.rows * self.heads * FLOAT), take(2 * LONG)]
        self.dropped(kept, self.linear(kept, width, width, keep=False))
        self.norm(kept)
        self.linear(kept, width, 4 * width)
        kept.append(take(self.rows * 4 * width * HALF))
        self.dropped(kept, self.linear(kept, 4 * width, width, keep=False))
        return kept

    def loss(self):
        """The scores of all words, as float32 too, and their logarithms."""
        kept, scores, take = [], self.rows * self.words, self.trace.take
        self.norm(kept)
        half = take(scores * HALF)
        kept.append(take(self.width * self.words * HALF))
        whole = take(scores * FLOAT)
        self.trace.give(half)
        kept += [take(scores * FLOAT), take(FLOAT)]
        self.trace.give(whole)
        return kept

    def backward_loss(self, kept):
        scores, take = self.rows * self.words, self.trace.take
        whole = take(scores * FLOAT)
        half = take(scores * HALF)
        self.trace.give(whole, *kept)
        gradient = take(self.rows * self.width * HALF)
        self.trace.give(half)
        return gradient

    def backward_layer(self, kept, gradient, sizes, gradients):
        """The gradient of what came before; those of the layer's parameters, last one first, are
        added to `gradients`."""
        take, give, rows, width = self.trace.take, self.trace.give, self.rows, self.width
        wide = take(rows * 4 * width * HALF)
        wider = take(rows * 4 * width * HALF)
        give(wide, gradient)
        inner = take(rows * width * FLOAT)
        give(wider)
        both = take(rows * 3 * width * HALF)
        self.trace.brief(rows * self.heads * FLOAT, rows * width * FLOAT)
        result = take(rows * width * FLOAT)
        give(both, inner)
        for size in reversed(sizes):
            half = take(size * HALF)
            gradients.append(take(size * FLOAT))
            give(half)
        give(*reversed(kept))
        return result


def training(trace, options):
    model = MODELS[options.model]
    generator = random.Random(f"training {options.seed}")
    first, layer, last = weights(model)
    every = parameters(model)
    for size in every:
        trace.take(size * FLOAT)
    state = []
    arrived = None
    for _ in range(options.steps):
        length = options.sequence - generator.randrange(options.sequence // 8)
        tokens = options.batch * length
        # The next step's inputs come while this one runs.
        inputs = arrived or [trace.take(tokens * LONG, 1), trace.take(tokens * LONG, 1)]
        arrived = [trace.take(options.batch * options.sequence * LONG, 1) for _ in range(2)]
        step = Step(trace, model, options.batch, length)
        # Forward: the embeddings' sum, each layer, the loss.
        words = trace.take(tokens * model[1] * FLOAT)
        places = trace.take(length * model[1] * FLOAT)
        total = trace.take(tokens * model[1] * FLOAT)
        trace.give(words, places)
        kept = [step.forward_layer() for _ in range(model[0])]
        gradient = step.backward_loss(step.loss())
        gradients = [trace.take(size * FLOAT) for size in last]
        for of_layer in reversed(kept):
            gradient = step.backward_layer(of_layer, gradient, layer, gradients)
        gradients += [trace.take(size * FLOAT) for size in first]
        trace.give(gradient, total, *inputs)
        # Adam: both moments at the first step; then a root and a quotient of each, as lists.
        if not state:
            state = [trace.take(size * FLOAT) for size in every for _ in range(2)]
            state += [trace.take(FLOAT) for _ in every]
        roots = [trace.take(size * FLOAT) for size in every]
        trace.give(*roots)
        trace.give(*gradients)
    trace.end()


# ---- serving -------------------------------------------------------------------------------------


class Request:
    def __init__(self, trace, model, prompt, answer):
        self.trace, self.model = trace, model
        self.length, self.left = prompt, answer
        self.caches = []
        self.prefill()

    def size(self):
        return self.length * self.model[1] * HALF

    def prefill(self):
        """The whole prompt, layer by layer; keys and values stay."""
        layers, width, heads, words = self.model
        for _ in range(layers):
            rows = self.trace.take(self.size())
            both = self.trace.take(3 * self.size())
            self.caches += [self.trace.take(self.size()), self.trace.take(self.size())]
            self.trace.brief(self.size(), self.length * heads * FLOAT)
            self.trace.give(both)
            self.trace.brief(4 * self.size(), 4 * self.size())
            self.trace.give(rows)
        self.trace.brief(self.length * words * HALF)

    def decode(self):
        """One token."""
        layers, width, heads, words = self.model
        self.length += 1
        self.left -= 1
        for number in range(2 * layers):
            old = self.caches[number]
            self.caches[number] = self.trace.take(self.size())
            self.trace.give(old)
            if number % 2 != 0:
                row = self.trace.take(width * HALF)
                self.trace.brief(3 * width * HALF, heads * self.length * FLOAT, 4 * width * HALF)
                self.trace.give(row)
        self.trace.brief(words * HALF, words * FLOAT)


def serving(trace, options):
    model = MODELS[options.model]
    generator = random.Random(f"serving {options.seed}")
    for size in parameters(model):
        trace.take(size * HALF)
    waiting = options.requests
    live = []
    while waiting or live:
        while waiting and len(live) < 8 and (len(live) < 2 or generator.random() < 0.2):
            prompt = int(generator.lognormvariate(5.0, 0.8)) + 8
            answer = int(generator.lognormvariate(3.5, 0.5)) + 4
            live.append(Request(trace, model, min(prompt, 900), min(answer, 100)))
            waiting -= 1
        for request in list(live):
            request.decode()
            if request.left == 0:
                trace.give(*request.caches)
                live.remove(request)
    trace.end()


# ---- a DataLoader --------------------------------------------------------------------------------


def loader(trace, options):
    generator = random.Random(f"loader {options.seed}")
    flying = []
    for number in range(options.batches):
        if generator.random() < 0.5:
            images = 64 if number % 50 != 49 else generator.randrange(1, 64)
            batch = [trace.take(images * 3 * 224 * 224 * FLOAT, 1), trace.take(images * LONG, 1)]
        else:
            longest = generator.randrange(40, 513)
            batch = [trace.take(32 * longest * LONG, 1) for _ in range(3)]
        flying.append(batch)
        # Copies end in order, and the loader is between two and eight batches ahead.
        while len(flying) > generator.randrange(2, 9):
            trace.give(*flying.pop(0))
    trace.end()


KINDS = {"training": training, "serving": serving, "loader": loader}


def make(kind, **changes):
    """The operations of a trace: tuples ("a", id, bytes, stream) and ("f", id, stream)."""
    options = arguments([kind])
    for name, value in changes.items():
        setattr(options, name, value)
    trace = Trace()
    KINDS[kind](trace, options)
    return trace.operations


def arguments(words):
    parser = argparse.ArgumentParser(
        description=__doc__.split("\n", maxsplit=1)[0],
        epilog="The head of traces.py says what the kinds are.",
    )
    parser.add_argument("kind", choices=KINDS)
    parser.add_argument("--model", choices=MODELS, default="gpt2-small")
    parser.add_argument("--batch", type=int, default=4, help="of a training step (%(default)s)")
    parser.add_argument("--sequence", type=int, default=512, help="its length (%(default)s)")
    parser.add_argument("--steps", type=int, default=3, help="of training (%(default)s)")
    parser.add_argument("--requests", type=int, default=12, help="to serve (%(default)s)")
    parser.add_argument("--batches", type=int, default=200, help="of a loader (%(default)s)")
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("-o", dest="file", help="the file; standard output unless given")
    options = parser.parse_args(words)
    least = {"batch": 1, "sequence": 8, "steps": 1, "requests": 1, "batches": 1}
    for name, bound in least.items():
        if getattr(options, name) < bound:
            parser.error(f"--{name} is at least {bound}")
    return options


def main():
    options = arguments(sys.argv[1:])
    trace = Trace()
    KINDS[options.kind](trace, options)
    if options.file:
        with open(options.file, "w") as file:
            trace.write(file)
    else:
        trace.write(sys.stdout)


if __name__ == "__main__":
    main()
