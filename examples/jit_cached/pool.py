"""Four processes that start from nothing; each imports words, and none compiles it again."""

import multiprocessing

import words

TEXTS = [
    "one two three four",
    "north east south west",
    "do re mi fa",
    "spring summer autumn winter",
]

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(4) as pool:
        for line in pool.map(words.sort, TEXTS):
            print(line)
