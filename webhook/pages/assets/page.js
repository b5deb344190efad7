// Filters of a page, the list of nodes, and boxes to tick.
//
// Items are elements with data-item; their text is searched, and their data-NAME lists the values of a facet, separated by
// spaces. A group (data-group is its name) without visible items is hidden. A section with a count (data-count) says how many of
// its items are visible. Filters are kept in the address behind the part that it names: #nodes?node=cordoned&text=web.
//
// The lines of nodes are in an element with data-nodes, and in templates with data-more-nodes. This script takes them all,
// and puts those that the filters keep back in blocks: a block near the window has its lines, any other one is empty and as
// high as its lines. So the document stays small, however many nodes there are.
"use strict";
(() => {
  const LINES_IN_BLOCK = 50;
  const NEAR = "1500px";

  const all = (selector, root = document) => [...root.querySelectorAll(selector)];
  const make = (name, properties, ...children) => {
    const element = Object.assign(document.createElement(name), properties);
    element.append(...children);
    return element;
  };
  const cached = (compute) => {
    const known = new WeakMap();
    return (key) => {
      if (!known.has(key)) known.set(key, compute(key));
      return known.get(key);
    };
  };

  const filters = () => all("[data-filter]");
  const chosen = () => filters().map((each) => [each.dataset.filter, valueOf(each)]).filter(([, value]) => value);
  const valueOf = (filter) => (filter.dataset.filter === "text" ? filter.value.trim() : filter.value);
  const titleOf = (filter) => filter.labels[0].firstChild.textContent.trim();
  // The name of a group counts as text of its items.
  const textOf = cached((item) => `${item.closest("[data-group]")?.dataset.group ?? ""} ${item.textContent}`.toLowerCase());

  function matches(item, { text, ...facets }) {
    if (text && !textOf(item).includes(text.toLowerCase())) return false;
    return Object.entries(facets).every(
      ([name, value]) => item.dataset[name] === undefined || item.dataset[name].split(" ").includes(value),
    );
  }

  function apply() {
    const wanted = Object.fromEntries(chosen());
    for (const section of all("[data-section]")) {
      const items = all("[data-item]", section);
      for (const item of items) {
        const hidden = !matches(item, wanted);
        if (item.hidden !== hidden) item.hidden = hidden;
      }
      for (const group of all("[data-group]:not([data-item])", section)) {
        const own = all("[data-item]", group);
        group.hidden = own.length > 0 && own.every((item) => item.hidden);
      }
      showCount(section, items.filter((item) => !item.hidden).length, items.length);
    }
    nodes.show(wanted);
    for (const link of all(".chip")) {
      const isChosen = [...new URLSearchParams(link.hash.split("?")[1])].every(([name, value]) => (wanted[name] ?? "") === value);
      if (isChosen) link.setAttribute("aria-current", "true");
      else link.removeAttribute("aria-current");
    }
    const named = filters().filter(valueOf).map((each) => `${titleOf(each)} ${valueOf(each)}`);
    for (const each of all("[data-filtered]")) each.textContent = named.length ? `Only: ${named.join(", ")}.` : "";
  }

  function showCount(section, shown, total) {
    const count = section.querySelector("[data-count]");
    if (!count) return;
    count.textContent = shown === total ? "" : `${shown.toLocaleString("en")} of ${total.toLocaleString("en")} shown`;
    let nothing = section.querySelector("[data-nothing]");
    if (!nothing && total && !shown) {
      const button = make("button", { type: "button", textContent: "Clear filters" });
      nothing = make("p", {}, "Nothing matches the filters. ", button);
      button.dataset.clear = nothing.dataset.nothing = "";
      count.parentElement.after(nothing);
    }
    if (nothing) nothing.hidden = !total || shown > 0;
  }

  // The list of nodes.
  const nodes = (() => {
    const observer = new IntersectionObserver((entries) => {
      if (isPrinting) return;
      for (const { target, isIntersecting } of entries) (isIntersecting ? fill : empty)(target);
    }, { rootMargin: NEAR });
    const linesOf = new WeakMap(); // of a block
    const blockOf = new WeakMap(); // of a line
    const lineOf = new WeakMap(); // the title and the text of a line, and its card, which is in the page while it is open
    let isPrinting = false;
    let lineHeight = 25;
    let shown = [];
    const NOTHING = { open: new Set(), focused: null, top: null, topAt: 0 };
    let kept = NOTHING;

    const container = () => document.querySelector("[data-nodes]");
    const nameOf = (line) => line.dataset.name;
    // What a part holds is taken out of it once, and remembered as long as the part is in the page.
    const linesIn = cached((part) => all("[data-title] li[data-name]", part.content ?? part).map((line) => {
      const [details, card] = [line.firstElementChild, line.querySelector(".node-card")];
      lineOf.set(line, { card, title: line.closest("[data-title]").dataset.title, text: line.textContent.toLowerCase() });
      if (!details.open) card.remove();
      return line;
    }));
    const lines = () => all("[data-nodes], [data-more-nodes]").flatMap(linesIn);
    const cellsOf = cached((line) => line.dataset.cells.split(" , ").filter(Boolean).map((cell) => cell.split(" ")));

    // One GPU must have all that is wanted of GPUs.
    function keeps(line, { text, node, state, product, namespace }) {
      if (text && !lineOf.get(line).text.includes(text.toLowerCase())) return false;
      if (node && !(line.dataset.node ?? "").split(" ").includes(node)) return false;
      return !(state || product || namespace) || cellsOf(line).some(([itsState, itsProduct, ...namespaces]) =>
        (!state || itsState === state) && (!product || itsProduct === product) && (!namespace || namespaces.includes(namespace)));
    }

    function show(wanted) {
      const place = container();
      if (!place) {
        [shown, kept] = [[], NOTHING];
        return;
      }
      const found = lines();
      shown = found.filter((line) => keeps(line, wanted));
      observer.disconnect();
      const groups = new Map();
      for (const line of shown) {
        const { title } = lineOf.get(line);
        groups.set(title, groups.get(title) ?? []).get(title).push(line);
      }
      place.replaceChildren(...[...groups].map(([title, own]) => groupOf(title, own)));
      const blocks = all(".nodes", place);
      for (const block of blocks.slice(0, 2)) fill(block);
      for (const block of blocks) observer.observe(block);
      showCount(place.closest("section"), shown.length, found.length);
    }

    function groupOf(title, own) {
      const count = `${own.length.toLocaleString("en")} ${own.length === 1 ? "node" : "nodes"}`;
      const group = make("div", {}, make("h3", { textContent: `${title}, ${count}` }));
      for (let first = 0; first < own.length; first += LINES_IN_BLOCK) {
        const block = make("ul", { className: "nodes" });
        linesOf.set(block, own.slice(first, first + LINES_IN_BLOCK));
        for (const line of linesOf.get(block)) blockOf.set(line, block);
        empty(block);
        group.append(block);
      }
      return group;
    }

    function fill(block) {
      if (block.firstChild) return;
      block.append(...linesOf.get(block));
      block.style.height = "";
    }

    function empty(block) {
      if (block.contains(document.activeElement)) return;
      if (block.firstChild) {
        block.style.height = `${block.offsetHeight}px`;
        if (!block.querySelector("details[open]")) lineHeight = block.offsetHeight / linesOf.get(block).length;
      } else {
        block.style.height = `${lineHeight * linesOf.get(block).length}px`;
      }
      block.replaceChildren();
    }

    function setOpen(line, isOpen) {
      const details = line.firstElementChild;
      if (details.open !== isOpen) details.open = isOpen;
      if (isOpen) details.append(lineOf.get(line).card);
      else lineOf.get(line).card.remove();
    }

    function focus(line) {
      if (!line) return;
      fill(blockOf.get(line));
      line.querySelector("summary").focus();
    }

    function onKey(event) {
      const line = event.target.closest?.(".nodes > li");
      if (!line || event.altKey || event.ctrlKey || event.metaKey) return;
      const at = shown.indexOf(line);
      const next = { ArrowDown: at + 1, ArrowUp: at - 1, Home: 0, End: shown.length - 1 }[event.key];
      if (next !== undefined) {
        event.preventDefault();
        focus(shown[next]);
      } else if (event.key === "Escape") {
        setOpen(line, false);
        focus(line);
      }
    }

    // Parts are about to be replaced: what is open, where the focus is, and which line is at the top of the window.
    function keep() {
      const visible = all(".nodes > li").find((line) => line.getBoundingClientRect().bottom > 0);
      kept = {
        open: new Set(lines().filter((line) => line.firstElementChild.open).map(nameOf)),
        focused: document.activeElement?.closest(".nodes > li")?.dataset.name,
        top: visible && visible.getBoundingClientRect().top < window.innerHeight ? nameOf(visible) : null,
        topAt: visible?.getBoundingClientRect().top ?? 0,
      };
    }

    function restore() {
      for (const line of lines()) if (kept.open.has(nameOf(line))) setOpen(line, true);
      const named = (name) => shown.find((line) => nameOf(line) === name);
      const top = kept.top && named(kept.top);
      if (top) {
        fill(blockOf.get(top));
        window.scrollBy(0, top.getBoundingClientRect().top - kept.topAt);
      }
      const focused = kept.focused && named(kept.focused);
      if (focused) {
        fill(blockOf.get(focused));
        focused.querySelector("summary").focus({ preventScroll: true });
      }
    }

    document.addEventListener("keydown", onKey);
    // This event does not bubble.
    document.addEventListener("toggle", ({ target }) => {
      if (lineOf.has(target.parentElement)) setOpen(target.parentElement, target.open);
    }, true);
    // Paper shows every line that the filters keep.
    window.addEventListener("beforeprint", () => {
      isPrinting = true;
      all(".nodes").forEach(fill);
    });
    window.addEventListener("afterprint", () => {
      isPrinting = false;
      apply();
    });
    return { show, keep, restore };
  })();

  // The address.
  const partsOf = () => {
    const [part, query] = window.location.hash.slice(1).split("?", 2);
    return { part, wanted: query === undefined ? null : new URLSearchParams(query) };
  };
  let isRead = false;

  function readAddress() {
    const { part, wanted } = partsOf();
    if (!wanted) return;
    for (const filter of filters()) {
      const value = wanted.get(filter.dataset.filter) ?? "";
      filter.value = value;
      // A link may name something that is gone; then nothing matches.
      if (filter.value !== value) filter.append(new Option(value, value, true, true));
    }
    apply();
    const place = document.getElementById(part);
    place?.scrollIntoView();
    // Tab goes on from the part that a link leads to.
    const title = place?.contains(document.activeElement) ? null : place?.querySelector("h2");
    if (title) {
      title.tabIndex = -1;
      title.focus({ preventScroll: true });
    }
  }

  function writeAddress() {
    const wanted = new URLSearchParams(chosen());
    const { part } = partsOf();
    const hash = wanted.size ? `#${part}?${wanted}` : part && `#${part}`;
    if (hash !== window.location.hash) {
      window.history.replaceState(null, "", hash || window.location.pathname + window.location.search);
    }
  }

  function change(values) {
    for (const each of filters()) each.value = values[each.dataset.filter] ?? each.value;
    apply();
    writeAddress();
  }

  document.addEventListener("input", (event) => {
    if (event.target.closest("[data-filter]")) change({});
  });
  document.addEventListener("click", (event) => {
    // A link to the filters that are chosen already does not change the address.
    if (event.target.closest("a")?.hash === window.location.hash) readAddress();
    if (!event.target.closest("[data-clear]")) return;
    change(Object.fromEntries(filters().map((each) => [each.dataset.filter, ""])));
    filters()[0].focus({ preventScroll: true });
  });
  document.addEventListener("keydown", (event) => {
    const search = document.querySelector("[data-filter=text]");
    const isTyping = event.target.closest("input, select, textarea");
    if (!search || event.altKey || event.ctrlKey || event.metaKey) return;
    if (event.key === "/" && !isTyping) {
      event.preventDefault();
      search.focus();
      search.select();
    } else if (event.key === "Escape" && event.target === search) {
      event.preventDefault();
      change({ text: "" });
    }
  });
  window.addEventListener("hashchange", () => {
    if (partsOf().wanted) readAddress();
    else writeAddress();
  });
  // Ticks of a page are kept in the browser, if it allows that; a box that the page ticks itself stays ticked.
  const boxes = [...document.querySelectorAll("[data-tick]")];
  const storedTicks = () => {
    try {
      return window.localStorage;
    } catch {
      return null;
    }
  };
  const keyOf = (box) => `gpu-admission ${document.title} ${box.dataset.tick}`;
  const countTicks = () => {
    const count = document.querySelector("[data-ticked]");
    if (count) count.textContent = `${boxes.filter((box) => box.checked).length} of ${boxes.length} ticked`;
  };
  for (const box of boxes) {
    if (storedTicks()?.getItem(keyOf(box)) === "ticked") box.checked = true;
    box.addEventListener("change", () => {
      storedTicks()?.setItem(keyOf(box), box.checked ? "ticked" : "open");
      countTicks();
    });
  }
  countTicks();
  // A page that replaces its parts filters the new ones.
  document.addEventListener("parts-replacing", nodes.keep);
  document.addEventListener("parts-replaced", () => {
    begin();
    nodes.restore();
  });
  // Printing shows the tables behind the pictures.
  window.addEventListener("beforeprint", () => {
    for (const each of all("details:not(.nodes details)")) each.open = true;
  });

  function begin() {
    for (const each of all(".filters")) each.hidden = false;
    apply();
    // The filters of the live page come with its report, and go when the user signs out, from the address too.
    if (filters().length && !isRead) readAddress();
    if (!filters().length && isRead) window.history.replaceState(null, "", window.location.pathname + window.location.search);
    isRead = filters().length > 0;
  }
  begin();
})();
