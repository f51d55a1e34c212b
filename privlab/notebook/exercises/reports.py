"""Exercises about reports: which of their sentences carry the claim, and which only look as if they did."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

from privlab.notebook.exercises.answers import letters, word

EVIDENCE = {  # what of the report counts -> what is missing without it
    "b": "Who else could say whom a face shows? One sentence names a judge that the search has not driven to its answer.",
    "c": "Would the second network give these names to any picture at all? It needs a baseline: other faces.",
    "e": "People are judges, too, if they do not know the answer, and if guessing is counted.",
}
NO_EVIDENCE = {
    "a": "(a) The search has driven this very answer up. Noise convinces the door's network as well, see exercise 1.",
    "d": "(d) The generator makes faces whatever it is asked for. A likely face may show nobody of the staff.",
    "f": "(f) The loss is the opinion of the door's network, as in a. It falls for noise, too.",
}


PAIRS = {
    "c": "One pair has the same stem and the same blocks, and lacks skip connections in one stage only. That is what you want to know.",
    "d": "Another pair has the same stem and the same blocks, and one of the two has no skip connection at all.",
}
NO_PAIRS = {
    "a": "(a) A VGG and a ResNet differ in their stems and in their blocks, too. Any of these may make the difference.",
    "b": "(b) Both have all skip connections. This pair tells what the stem does.",
    "e": "(e) The stems are alike now. But this ResNet has about twice as many convolutions, and halves its maps by strides where "
    "the VGG takes maxima. Any of this may make the difference.",
}


FACTS = {
    "a": "A network that knows less gives less away. Without the accuracy of both, the 20 points may be paid for at the task.",
    "b": "What does the usual network give away if its training simply stops earlier? Without that, the cheapest defence is not ruled out.",
    "c": "One training and one draw of people can differ from the next by as much. How large is the spread?",
    "d": "A weaker attack, or a stricter judge, finds fewer faces in any network.",
}
NO_FACTS = {
    "e": "(e) One picture can be chosen. The best reconstruction says nothing about the 20 points, whichever way it looks.",
    "f": "(f) The victim is no judge: the attack has driven its answer up, in both networks. See lab 11, exercise 1.",
}
FLAWS = {
    "b": "A smaller share than the paper's can still be more than guessing. The flaw is in the comparison with 120 coins.",
    "c": "The question was which one is closer. The answers count for that, and for no more.",
    "d": "Drawing the sides at random is right: else a habit of clicking left would look like a preference.",
}

AT_RISK = {
    "a": "Count people: of every thousand non-members one is accused, and of every thousand members fifty are found. An accusation is "
    "nearly always right.",
    "c": "A mean over everybody hides a group about whom the attack is nearly always right.",
    "f": "A stronger attack may find what this one does not. What was not tried is no evidence of safety.",
}
NOT_AT_RISK = {
    "b": "(b) That is how it should be asked, so that random guessing reaches one half. It says nothing for or against a risk.",
    "d": "(d) A threshold chosen with the truth makes the attack look *better* than an attacker's. The honest number is lower still.",
    "e": "(e) Most large networks do. What counts is how much worse they are on other images, and the 55% have this in them already.",
}


TAUGHT_NOTHING = {
    "a": "The majority guess has 0.84 then. How much of 0.86 is left for the features?",
    "b": "What was there before the training was not taught by it. Compare 0.86 with the untrained network.",
    "c": "A probe that meets the same patients again can recognise *who* it is, and look the sex up, without reading it.",
}
TAUGHT = {
    "d": "(d) That is how it should be: on the victim's own images some memorising would come in. It opens no other way to 0.86.",
    "e": "(e) A linear probe can only weight features. A stronger one may read more, so this makes 0.86 a lower bound.",
    "f": "(f) Then the answer alone, broken or not, tells nothing about the sex. This closes one way to 0.86, and opens none.",
}


clinic = partial(letters, right=TAUGHT_NOTHING, wrong=TAUGHT, there="the facts are a to f")


BROCHURE = {
    "a": "What is sent unchanged can be attacked as if there were no defence. One fact names such a part.",
    "b": "An attacker who knows the noise counts noisy tensors for less. A search that knows nothing of it makes any noise look good.",
    "d": "Noise that is fresh each time averages out. How many updates of the same photographs does the server see?",
    "e": "The claim is also about the cost. Was it measured on a training in which every step was defended?",
}
NO_BROCHURE = {
    "c": "(c) That is the right baseline, and an honest thing to report. It does not speak against the claim.",
    "f": "(f) The mean over 100 clients is known well enough. More clients would not repair what is wrong here.",
}


brochure = partial(letters, right=BROCHURE, wrong=NO_BROCHURE, there="the facts are a to f")


nobody = partial(letters, right=AT_RISK, wrong=NOT_AT_RISK, there="the facts are a to f")


evidence = partial(letters, right=EVIDENCE, wrong=NO_EVIDENCE, there="the report has a to f")


pairs = partial(letters, right=PAIRS, wrong=NO_PAIRS, there="the pairs are a to e")


def vendor(answer: object) -> Iterator[str]:
    whys = list(letters(answer, FACTS, NO_FACTS, "the facts are a to f"))
    if whys == [FACTS["a"]]:  # they hold that b says it already
        yield f"{whys[0]} Even b needs a: without it nobody knows where the training has to stop."
        return
    yield from whys


def players(answer: object) -> Iterator[str]:
    if not isinstance(answer, str):
        yield f'Give one letter as text, such as "b"; this is a {type(answer).__name__}.'
        return
    said = word(answer).strip("()")
    if said not in {"a", *FLAWS}:
        yield f"There is no {answer!r}; the sentences are a to d, and one of them names the flaw."
    elif said in FLAWS:
        yield FLAWS[said]


UNSIGNED = {
    "a": "Each step stands on those before it. The table never tried step 10 on another network, and the report says 'any network'.",
    "b": "The report says 'any attack'. The table has one, and the photograph may still be in the gradient of step 9.",
    "e": "The report says 17 dB. One weight for both may hold the search back at one step more than at the other.",
    "f": "The report says any network and any attack. One reason is a measurement in which the gain is far smaller: look at 10 minus 9.",
}
SIGNED = {
    "c": "(c) An activation has no parameters: both steps have the same. And each search compares gradients of one network only.",
    "d": "(d) If both steps get the same photographs, a large variation between photographs is the same on both sides, and cancels.",
}


report = partial(letters, right=UNSIGNED, wrong=SIGNED, there="the reasons are a to f")


UNSAFE = {
    "a": "If the search hardly misses the stem, its other gradients hold the photograph as well. One finding says so.",
    "c": "An attack that never reads the stem is not stopped by withholding it. One finding names one, and it is not a search.",
    "d": "If another weight puts another part first, the ranking is one of the attack. Which finding says so?",
    "f": "A search that was stopped early says little about a part. Which finding shows what it finds later, without the stem?",
}
NOT_UNSAFE = {
    "b": "(b) Repeating the search with other photographs and weights is what makes a ranking worth reading. It does not speak against it.",
    "e": "(e) This agrees with the team: the head is low in its ranking. It names no way to the photograph.",
}


safe = partial(letters, right=UNSAFE, wrong=NOT_UNSAFE, there="the findings are a to f")


ADD = {
    "b": "Forty times as many members are found where almost nobody is accused wrongly. Does the AUC, over all patients, show them?",
    "d": "An answer to a question that the training never asked says little about the training. The mean of two answers is weaker then.",
    "e": "A spread from two margins is too wide or too narrow by chance. The ratio of such Gaussians is mostly noise.",
}
NO_ADD = {
    "a": "(a) That is the best case for the attacker. The ratio would hardly do better with shadow models of another kind.",
    "c": "(c) So it must be. A Gaussian that was fitted to the victim itself would know the answer.",
    "f": "(f) That makes the comparison fair. It speaks neither for the ratio nor against it.",
}


auditor = partial(letters, right=ADD, wrong=NO_ADD, there="the facts are a to f")


CREDIT = {
    "a": "Is anything given away? One fact compares 12.2 dB with an image that needs no gradient.",
    "b": "More steps help a search by themselves. One fact gives the two searches different numbers of steps.",
    "d": "If the client's gradient is not needed for 12.2 dB, it does not give the batch away. One fact takes it out.",
    "e": "A setting that was chosen for one of two searches, on the very batches that are reported, favours it.",
}
NO_CREDIT = {
    "c": "(c) That is how it should be: a difference between the two is then none of their starts.",
    "f": "(f) Then the gain is no accident of one batch. It says nothing against the sentence, only that 0.6 dB are there.",
}


credit = partial(letters, right=CREDIT, wrong=NO_CREDIT, there="the facts are a to f")
