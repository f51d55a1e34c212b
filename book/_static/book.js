// The widget manager asks for MathJax 2's queue wherever a MathJax is; labels of controls hold no formulas, so nothing need happen.
addEventListener("DOMContentLoaded", () => { if (window.MathJax) window.MathJax.Hub ??= { Queue() {} }; });

// Predictions: what follows a question, up to the cell that compares the guess, is hidden until there is one, and the lab's answer until
// all have one. Only this script hides.
addEventListener("DOMContentLoaded", () => {
  const page = location.pathname.split("/").pop(), WHY = "what did you assume that does not hold here?";
  const stored = key => { try { return JSON.parse(localStorage.getItem(key)); } catch { return null; } };
  const store = (key, value) => { try { localStorage.setItem(key, JSON.stringify(value)); } catch { /* kept while the page is open */ } };
  const listed = (all, last = "and") => all.length < 2 ? all[0] ?? "none of them" : `${all.slice(0, -1).join(", ")} ${last} ${all.at(-1)}`;
  const follows = (a, b) => a.compareDocumentPosition(b) & Node.DOCUMENT_POSITION_FOLLOWING;
  const made = (tag, more) => Object.assign(document.createElement(tag), more);

  const compared = (guess, right, field) => {
    if (field.type === "number") {
      const unit = field.dataset.unit && ` ${field.dataset.unit}`, said = `You said ${guess}${unit}.`;
      if (right === null) return said;
      const gap = Math.abs(Number(String(right).replace("inf", "Infinity")) - guess);
      const near = gap <= (field.max - field.min) / 10, away = isFinite(gap) ? Number(gap.toPrecision(3)) : "∞";
      return `${said} ${near ? "Close." : `That is ${away}${unit} away: ${WHY}`}`;
    }
    const said = `You said ${listed(guess)}`, surplus = guess.filter(o => !right?.includes(o)), missed = right?.filter(o => !guess.includes(o));
    if (right === null) return `${said}.`;
    if (field.type === "radio") return `${said}: ${surplus.length ? WHY : "right."}`;
    const wrong = surplus.length ? [`${listed(surplus)} ${surplus.length > 1 ? "are" : "is"} not right`] : [];
    if (missed.length) wrong.push(`you missed ${listed(missed)}`);
    return `${said}: ${wrong.join(", and ") || "right"}.`;
  };

  const blocks = [...document.querySelectorAll("article section > :not(section, h1, h2, h3, h4)")];
  const sections = [...document.querySelectorAll("article section section")].map(section => [section, blocks.filter(block => section.contains(block))]);
  const ends = blocks.filter(block => block.closest("#the-answer, #the-paper-and-here")), waiting = made("p", { className: "privlab-waiting" });
  const unmade = () => asked.filter(one => !one.state.open);
  const asked = [...document.querySelectorAll("form.privlab-prediction")].map((form, n) => {
    const key = `privlab:${page}:${form.dataset.name}`, fields = [...form.querySelectorAll("input")], number = fields[0].type === "number";
    const later = blocks.filter(block => follows(form, block) && !form.contains(block));
    const answer = [...document.querySelectorAll(".privlab-answer")].find(a => a.dataset.name === form.dataset.name && follows(form, a));
    const end = later.findIndex(block => answer ? block.contains(answer) : block.querySelector(".cell_output"));
    const state = stored(key) ?? {}, fits = number ? typeof state.guess === "number" : Array.isArray(state.guess);
    if (!fits) delete state.guess; // the question was another one
    const about = made("p"), skip = made("button", { type: "button" });
    about.setAttribute("role", "status");
    form.append(made("button", { textContent: "That is my guess" }), skip, about);
    if (answer) answer.id ||= `privlab-answer-${n}`;
    for (const field of fields) {
      if (number) field.value = state.guess ?? "";
      else field.checked = state.guess?.includes(field.value) ?? false;
    }
    const show = () => {
      const guessed = state.guess !== undefined;
      skip.textContent = state.open ? "Hide what follows again" : "Show it without a guess";
      about.textContent = guessed ? "Your guess is kept in this browser. " : state.open ? "" : "What follows is hidden until you have guessed.";
      if (answer) answer.textContent = guessed ? compared(state.guess, JSON.parse(answer.dataset.right), fields[0]) : "";
      if (guessed && answer) about.append(made("a", { href: `#${answer.id}`, textContent: "See how it compares" }));
      const left = unmade(), closed = left.flatMap(one => one.later);
      if (left.length) closed.push(...ends);
      waiting.hidden = !left.length;
      for (const block of blocks) block.classList.toggle("privlab-later", closed.includes(block));
      for (const [section, inside] of sections) section.classList.toggle("privlab-later", inside.length > 0 && inside.every(block => closed.includes(block)));
    };
    const change = (open, guess) => { Object.assign(state, { open, guess }); store(key, state); show(); };
    form.addEventListener("submit", event => {
      event.preventDefault();
      change(true, number ? Number(fields[0].value) : fields.filter(field => field.checked).map(field => field.value));
    });
    skip.addEventListener("click", () => { if (state.open) form.reset(); change(!state.open); });
    return { form, state, show, later: later.slice(0, end + 1) };
  });
  if (asked.length && ends.length) {
    const back = made("a", { href: "#", textContent: "Go to the first that is open" });
    const toFirst = event => { event.preventDefault(); unmade()[0].form.scrollIntoView(); };
    back.addEventListener("click", toFirst);
    waiting.append("The answer is hidden until you have guessed, or skipped, each prediction above. ", back, ".");
    ends[0].closest("section").before(waiting);
  }
  for (const one of asked) one.show();
  const arrive = () => { // at what is hidden: there the question comes first
    const hidden = document.querySelector(":target")?.closest(".privlab-later");
    if (hidden) (unmade().find(one => one.later.some(block => hidden.contains(block))) ?? unmade()[0])?.form.scrollIntoView();
  };
  addEventListener("hashchange", arrive);
  arrive();
});

// The ledger's filters: a paper whose claims are all filtered away goes too, and the others open.
addEventListener("DOMContentLoaded", () => {
  const form = document.querySelector(".privlab-filter");
  if (!form) return;
  const apply = () => {
    const wanted = [...new FormData(form)].filter(([, value]) => value);
    let count = 0;
    for (const group of document.querySelectorAll(".privlab-group")) {
      const claims = [...group.querySelectorAll("li")];
      for (const claim of claims) claim.hidden = wanted.some(([name, value]) => claim.dataset[name] !== value);
      const left = claims.filter(claim => !claim.hidden).length;
      Object.assign(group, { hidden: !left, open: wanted.length > 0 });
      count += left;
    }
    form.querySelector("output").textContent = `${count} claims`;
  };
  form.hidden = false;
  form.addEventListener("change", apply);
  form.addEventListener("reset", () => setTimeout(apply));
  apply();
});
