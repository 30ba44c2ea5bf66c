"""The eight built-in prompts of the demo, of clearly different lengths."""

from __future__ import annotations

DEMO_PROMPTS = (
    "The capital of France is",
    "Once upon a time, in a village at the edge of a dark forest,",
    (
        "A recipe for simple tomato soup. Ingredients: six ripe tomatoes, one onion, two cloves of"
        " garlic, olive oil, salt and a handful of basil leaves. Step one:"
    ),
    (
        "Question: A farmer has 17 sheep and all but 9 run away. How many sheep are left?\n"
        "Answer: All but nine ran away, so nine stayed.\n"
        "Question: A train leaves at ten past three and arrives at five to four. How long does the"
        " journey take?\n"
        "Answer:"
    ),
    (
        "def fibonacci(n):\n"
        '    """Return the first n Fibonacci numbers as a list."""\n'
        "    numbers = [0, 1]\n"
        "    while len(numbers) < n:\n"
        "        numbers.append(numbers[-1] + numbers[-2])\n"
        "    return numbers[:n]\n"
        "\n"
        "\n"
        "def factorial(n):\n"
        '    """Return the product of the whole numbers from 1 to n."""\n'
    ),
    (
        "The water of the oceans is never still. The wind pushes its surface and makes waves, the"
        " moon and the sun pull at it and make the tides, and differences in warmth and salt set"
        " whole seas moving far below. A drop that sinks in the cold north may travel through the"
        " deep for a thousand years before it comes back to the light. On its way it carries heat,"
        " oxygen and food from one end of the planet to the other. Without these slow rivers inside"
        " the sea,"
    ),
    (
        "Minutes of the meeting of the garden club. Present were nine members; two had sent their"
        " apologies. The treasurer reported that the club had spent less than planned on seeds,"
        " because a neighbour gave three boxes of tulip bulbs, and more than planned on tools,"
        " because two spades broke in the stony ground behind the school. It was agreed to buy"
        " stronger ones. The second matter was the old pear tree by the gate. Some members feared"
        " that it would fall in a storm, others wanted to keep it for its blossom and for the"
        " owls that nest in it. After a long talk the club decided to ask a tree surgeon for advice"
        " before the autumn. The third matter was the summer party. It will take place on the last"
        " Saturday of June, and every member is asked to bring"
    ),
    (
        "A letter to my grandson. When I was a boy, there was one telephone in our street, and it"
        " stood in the baker's shop. Whoever wanted to call a doctor, an aunt or the fire brigade"
        " went there, and while he talked everybody who was buying bread listened. So there were no"
        " secrets, but there was always help: when my mother fell ill, the whole street knew it"
        " within the hour, and before noon there was soup on our stove, three kinds of it. We had"
        " no car. My father walked to the factory, forty minutes there and forty back, in rain"
        " and in snow, and he said that it was the best part of his day, because nobody could ask"
        " anything of him. In the evenings he repaired clocks. He did not earn much with it, but he"
        " loved the moment when a clock that had been silent for years began to tick again. He let"
        " me hold the lamp. I learned from him that most things which do not work are only dirty,"
        " and that patience is a tool like a screwdriver, only cheaper. I also learned that one has"
        " to put the screws down in the order in which one takes them out. You will laugh, but this"
        " has helped me more than many things that I was taught at school. I am telling you this"
        " because you wrote that you want to give up the violin. I do not want to tell you what to"
        " do. But before you decide,"
    ),
)
