// Keeps the page up to date: asks for its content every two seconds, and counts ages every second in between.
"use strict";

(() => {
  const POLL_MS = 2000, SLOWEST_MS = 15000, TIMEOUT_MS = 8000;
  const content = document.getElementById("content");
  const connection = document.getElementById("connection");
  const pause = document.getElementById("pause");
  const announcement = document.getElementById("announcement");
  const sources = new WeakMap();
  let etag = content.dataset.etag, failures = 0, timer = 0, paused = false, busy = false;
  let ahead = Number(content.dataset.now) * 1000 - Date.now(); // the server's clock, not this one's

  // The same words as the server's.
  const span = (seconds) => {
    for (const [size, unit] of [[86400, "d"], [3600, "h"], [60, "min"]]) {
      if (seconds >= size) return `${Math.floor(seconds / size)} ${unit}`;
    }
    return `${Math.max(0, Math.floor(seconds))} s`;
  };
  const distance = (seconds) => (seconds > 0 ? `in ${span(seconds)}` : `${span(-seconds)} ago`);
  const clock = (moment, now) => {
    const text = new Date(moment).toISOString();
    const day = text.slice(0, 10);
    return (day === new Date(now).toISOString().slice(0, 10) ? "" : `${day} `) + text.slice(11, 19);
  };
  const setText = (element, text) => {
    if (element.textContent !== text) element.textContent = text;
  };

  const count = () => {
    const now = Date.now() + ahead;
    for (const time of content.querySelectorAll("time[data-form]")) {
      const moment = Date.parse(time.dateTime);
      const seconds = (moment - now) / 1000;
      const forms = {
        age: () => span(-seconds),
        distance: () => distance(seconds),
        until: () => (seconds > 0 ? distance(seconds) : "now"),
        moment: () => `${clock(moment, now)} (${distance(seconds)})`,
      };
      setText(time, forms[time.dataset.form]());
    }
  };

  // What a section is made from, apart from the ages in it.
  const sourceOf = (section) => {
    if (!sources.has(section)) sources.set(section, section.outerHTML.replace(/>[^<]*<\/time>/g, "></time>"));
    return sources.get(section);
  };
  for (const section of content.children) sourceOf(section);

  // Sections that have not changed stay as they are, with what is selected or focused in them.
  const show = (html, now) => {
    const parsed = new DOMParser().parseFromString(html, "text/html").body;
    const focus = document.activeElement && content.contains(document.activeElement) ? document.activeElement : null;
    const target = focus && focus.getAttribute("href");
    const before = document.getElementById("headline").textContent;
    const sections = [...parsed.children];
    const shown = new Map([...content.children].map((section) => [sourceOf(section), section]));
    sections.forEach((section, index) => {
      const same = shown.get(sourceOf(section)) || section;
      const present = content.children[index];
      if (same !== present) content.insertBefore(same, present || null);
    });
    while (content.children.length > sections.length) content.lastElementChild.remove();
    if (target && !content.contains(focus)) {
      const again = [...content.querySelectorAll("a")].find((link) => link.getAttribute("href") === target);
      if (again) again.focus({ preventScroll: true });
    }
    ahead = now * 1000 - Date.now();
    const headline = document.getElementById("headline").textContent;
    if (headline !== before) setText(announcement, headline);
    document.title = `flipop: ${headline}`;
  };

  const connected = (good) => {
    failures = good ? 0 : failures + 1;
    document.body.classList.toggle("stale", !good);
    const state = good ? "Live" : "Connection lost, trying again";
    if (connection.textContent !== state && (failures === 1 || connection.textContent.startsWith("Conn"))) {
      setText(announcement, good ? "Live again" : state);
    }
    setText(connection, state);
  };

  const poll = async () => {
    if (busy) return;
    busy = true;
    try {
      const answer = await fetch("status/content", {
        cache: "no-store",
        headers: etag ? { "If-None-Match": etag } : {},
        signal: AbortSignal.timeout(TIMEOUT_MS),
      });
      if (answer.status === 200) {
        const html = await answer.text();
        show(html, Number(answer.headers.get("X-Now")));
        etag = answer.headers.get("ETag") || "";
      } else if (answer.status !== 304) {
        throw new Error(`status ${answer.status}`);
      }
      connected(true);
    } catch {
      connected(false);
    }
    busy = false;
    next();
  };

  const next = () => {
    clearTimeout(timer);
    if (paused || document.hidden) return;
    timer = setTimeout(poll, Math.min(SLOWEST_MS, POLL_MS * 2 ** Math.min(failures, 4)));
  };

  pause.addEventListener("click", () => {
    paused = !paused;
    pause.setAttribute("aria-pressed", String(paused));
    setText(connection, paused ? "Paused" : "Live");
    document.body.classList.toggle("stale", paused);
    if (paused) clearTimeout(timer);
    else poll();
  });
  document.addEventListener("visibilitychange", () => (document.hidden || paused ? clearTimeout(timer) : poll()));

  document.getElementById("live").hidden = false;
  setInterval(() => { if (!paused) count(); }, 1000);
  poll();
})();
