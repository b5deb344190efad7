// The live page: signs in with a bearer token, follows the report, and asks why something is Pending. The token is in a
// variable of this function and nowhere else: not in the address, in cookies, or in any storage of the browser. Sentences
// are set as text; only parts that the server has rendered, whose templates escape every value, are set as HTML.
"use strict";
(() => {
  const FIRST_PAUSE = 2000;
  const LONGEST_PAUSE = 30000;
  const SILENCE = 60000; // the server sends a line at least every 50 seconds

  const find = (name) => document.getElementById(`ui-${name}`);
  const [signIn, page, question, report, explanation] = ["sign-in", "page", "question", "report", "explanation"].map(find);
  const [state, message, signOutButton] = ["state", "message", "sign-out"].map(find);
  const maker = { createHTML: (html) => html };
  const parts = window.trustedTypes ? window.trustedTypes.createPolicy("gpu-admission", maker) : maker;

  // The only place where a text becomes HTML; each comes from a template of the server.
  function setHTML(element, html) {
    element.innerHTML = parts.createHTML(html);
  }

  let session = null; // { token, namespace, stop, asked: the last question of each place }, while signed in
  let answer = null; // { key, row } of the explanation below a row of the wait list

  // A session that has ended must not change the page.
  const isOver = (own) => own !== session;

  function call(own, what, body, signal) {
    const below = own.namespace ? `namespaces/${own.namespace}/` : "";
    return fetch(`ui/v1/${below}${what}`, {
      method: "POST",
      body: JSON.stringify(body),
      headers: { "Content-Type": "application/json", ...(own.token ? { Authorization: `Bearer ${own.token}` } : {}) },
      // Without a token, the browser may identify itself by a client certificate.
      credentials: own.token ? "omit" : "same-origin",
      cache: "no-store",
      redirect: "error",
      signal,
    });
  }

  function begin(token, namespace) {
    const own = { token, namespace, stop: new AbortController(), asked: new WeakMap() };
    session = own;
    state.textContent = "Signing in…";
    follow(own);
  }

  function signOut(sentence = "") {
    session?.stop.abort();
    session = answer = null;
    for (const each of [report, explanation]) each.replaceChildren();
    document.dispatchEvent(new Event("parts-replaced"));
    for (const form of [signIn, question]) form.reset();
    question.elements.namespace.readOnly = false;
    state.textContent = "";
    state.classList.remove("ui-old");
    message.textContent = sentence;
    page.hidden = signOutButton.hidden = true;
    signIn.hidden = false;
  }

  async function follow(own) {
    let pause = FIRST_PAUSE;
    while (!isOver(own)) {
      const end = await readReport(own, () => { pause = FIRST_PAUSE; });
      if (isOver(own)) return;
      if (end.signsOut) return signOut(end.sentence);
      showOld(end.sentence);
      await new Promise((resolve) => setTimeout(resolve, Math.max(pause, end.seconds * 1000)));
      pause = Math.min(2 * pause, LONGEST_PAUSE);
    }
  }

  // Shows one stream to its end; returns why it ended.
  async function readReport(own, onReport) {
    own.parts = new Map(); // those that have come since the last report was shown
    const stop = new AbortController();
    const endWith = () => stop.abort();
    own.stop.signal.addEventListener("abort", endWith);
    let timer = setTimeout(endWith, SILENCE);
    try {
      const answer = await call(own, "report", {}, stop.signal);
      if (!answer.ok) return await refusal(answer);
      for await (const line of linesOf(answer.body)) {
        if (isOver(own)) return {};
        clearTimeout(timer);
        timer = setTimeout(endWith, SILENCE);
        if (line.end) return { sentence: line.text, signsOut: ["unauthenticated", "forbidden"].includes(line.end), seconds: 0 };
        show(line, onReport);
      }
      return { sentence: "The connection has ended.", seconds: 0 };
    } catch {
      return { sentence: "The server cannot be reached.", seconds: 0 };
    } finally {
      clearTimeout(timer);
      own.stop.signal.removeEventListener("abort", endWith);
    }
  }

  async function refusal(answer) {
    const sentence = (await answer.text()).trim();
    const seconds = Number(answer.headers.get("Retry-After")) || 0;
    return { sentence, seconds, signsOut: answer.status < 500 && answer.status !== 429 };
  }

  async function* linesOf(body) {
    const reader = body.pipeThrough(new TextDecoderStream()).getReader();
    let pieces = [];
    for (;;) {
      const { value, done } = await reader.read();
      if (done) return;
      const ended = value.split("\n");
      pieces.push(ended.shift());
      for (const rest of ended) {
        yield JSON.parse(pieces.join(""));
        pieces = [rest];
      }
    }
  }

  function show(line, onReport) {
    if (line.begin) showUser(line.begin);
    if (line.part) session.parts.set(line.part, line.html);
    if (line.shown) {
      onReport();
      // All at once: a page that is shorter for a moment would be scrolled.
      document.dispatchEvent(new Event("parts-replacing"));
      for (const [name, html] of session.parts) replacePart(name, html);
      session.parts.clear();
      showOnly(line.shown);
      document.dispatchEvent(new Event("parts-replaced"));
    }
    if (line.time) {
      state.classList.remove("ui-old");
      state.textContent = `${session.who} Live, as of ${new Date(line.time).toLocaleTimeString()}.`;
      message.textContent = "";
    }
  }

  function showUser({ user, namespace, seesNodes }) {
    const seen = namespace
      ? `you see the objects of namespace ${namespace}${seesNodes ? " and nodes" : ""} by name, and everything else as numbers.`
      : "you see everything.";
    session.who = `Signed in as ${user}; ${seen}`;
    state.textContent = `${session.who} Loading the report…`;
    signIn.hidden = true;
    page.hidden = signOutButton.hidden = false;
    if (!namespace) return;
    question.elements.namespace.value = namespace;
    question.elements.namespace.readOnly = true;
  }

  function showOld(sentence) {
    if (page.hidden) {
      state.textContent = "Trying again…";
    } else {
      state.classList.add("ui-old");
      state.textContent = `${session.who} Not live: the report below is outdated. Trying again…`;
    }
    message.textContent = sentence;
  }

  function replacePart(name, html) {
    const old = report.querySelector(`[data-part="${CSS.escape(name)}"]`);
    const part = document.createElement("div");
    part.dataset.part = name;
    setHTML(part, html);
    if (old) {
      keep(old, part);
      old.replaceWith(part);
    } else {
      report.append(part);
    }
  }

  // What the user has chosen stays: values of filters, what is unfolded, what was scrolled, and the focus. page.js does it for
  // the lines of nodes.
  function keep(old, part) {
    for (const each of part.querySelectorAll(".filters, [data-explain]")) each.hidden = false;
    for (const filter of part.querySelectorAll("[data-filter]")) {
      const before = old.querySelector(`[data-filter="${CSS.escape(filter.dataset.filter)}"]`);
      if (before) filter.value = before.value;
    }
    const titles = (root) => new Map([...root.querySelectorAll("details:not(.nodes details)")].map((each) => [titleOf(each), each]));
    const unfolded = titles(old);
    for (const [title, each] of titles(part)) if (unfolded.has(title)) each.open = unfolded.get(title).open;
    const focused = [...old.querySelectorAll(":not(.nodes *)")].indexOf(document.activeElement);
    const inside = answer?.row.contains(document.activeElement) ? document.activeElement : null;
    if (answer && old.contains(answer.row)) moveAnswer(part);
    if (inside) queueMicrotask(() => inside.focus({ preventScroll: true }));
    else if (focused >= 0) queueMicrotask(() => part.querySelectorAll(":not(.nodes *)")[focused]?.focus({ preventScroll: true }));
  }

  // The explanation of pods that wait no longer stays at the top of the list, as long as there is one.
  function moveAnswer(part) {
    const button = [...part.querySelectorAll("[data-explain]")].find((each) => keyOf(each) === answer.key);
    if (button) putBelow(button);
    else part.querySelector("tbody")?.prepend(answer.row);
  }

  // A title stays the same if only its numbers or the count of filtered items change.
  function titleOf(details) {
    const words = [...(details.firstElementChild?.childNodes ?? [])].filter((each) => each.dataset?.count === undefined);
    return details.dataset.group ?? words.map((each) => each.textContent.replace(/[0-9]+/g, "")).join("");
  }

  function showOnly(names) {
    for (const part of [...report.children]) if (!names.includes(part.dataset.part)) part.remove();
    for (const each of report.querySelectorAll(".filters, [data-explain]")) each.hidden = false;
  }

  async function ask(place, asked) {
    const own = session;
    own.asked.set(place, asked);
    // An answer that comes after the next question, or after the end of the session, is not shown.
    const isLate = () => isOver(own) || own.asked.get(place) !== asked;
    place.textContent = "Computing…";
    try {
      const answer = await call(own, "explain?timeout=30s", asked, own.stop.signal);
      const found = answer.ok ? await answer.json() : await refusal(answer);
      if (isLate()) return;
      if (!answer.ok) place.textContent = found.sentence;
      else setHTML(place, found.html);
    } catch {
      if (!isLate()) place.textContent = "The server cannot be reached.";
    }
  }

  // Opens the explanation of a row below it.
  function openAnswer(button) {
    const item = button.closest("[data-item]");
    const row = document.createElement("tr");
    const [body, close] = [document.createElement("div"), document.createElement("button")];
    row.className = "answer";
    Object.assign(body, { tabIndex: -1, ariaLive: "polite", ariaLabel: "Explanation" });
    body.setAttribute("role", "group");
    Object.assign(close, { type: "button", textContent: "Close" });
    close.addEventListener("click", closeAnswer);
    const cell = row.insertCell();
    cell.colSpan = item.cells.length;
    cell.append(close, body);
    answer = { key: keyOf(button), row };
    putBelow(button);
    item.scrollIntoView();
    body.focus({ preventScroll: true });
    const asked = { kind: button.dataset.kind.toLowerCase(), namespace: item.dataset.namespace, name: button.dataset.name };
    ask(body, asked);
  }

  const keyOf = (button) => [button.dataset.kind, button.closest("[data-item]").dataset.namespace, button.dataset.name].join(" ");

  function putBelow(button) {
    button.setAttribute("aria-expanded", "true");
    button.closest("tr").after(answer.row);
  }

  function closeAnswer() {
    const button = report.querySelector('[data-explain][aria-expanded="true"]');
    button?.setAttribute("aria-expanded", "false");
    button?.focus();
    answer?.row.remove();
    answer = null;
  }

  signIn.addEventListener("submit", (event) => {
    event.preventDefault();
    const { token, namespace } = signIn.elements;
    const [secret, chosen] = [token.value.trim(), namespace.value.trim()];
    signOut(); // of a session that is not shown yet; it clears the form too
    begin(secret, chosen);
  });
  question.addEventListener("submit", (event) => {
    event.preventDefault();
    const { kind, namespace, name } = question.elements;
    ask(explanation, { kind: kind.value, namespace: namespace.value.trim(), name: name.value.trim() });
  });
  report.addEventListener("click", (event) => {
    const button = event.target.closest("[data-explain]");
    if (!button) return;
    const isOpen = button.getAttribute("aria-expanded") === "true";
    closeAnswer();
    if (!isOpen) openAnswer(button);
  });
  report.addEventListener("keydown", (event) => {
    if (event.key === "Escape" && answer?.row.contains(event.target)) closeAnswer();
  });
  signOutButton.addEventListener("click", () => signOut());
  window.addEventListener("pagehide", () => signOut());
  signIn.hidden = false;
})();
