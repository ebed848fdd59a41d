// Lays a dashboard out as Grafana does. `draw(board, view)` returns what is seen in each panel, by its title.
//
// `view` has the address of a Prometheus, `from` and `to` in seconds, the interval of scrapes, the shortest time over
// which rates are taken, the values of the variables, and the theme, `light` or `dark`.
import React from 'react';
import { createRoot } from 'react-dom/client';
import { createTheme } from '@grafana/data';
import { initPluginTranslations } from '@grafana/i18n';
import { GlobalStyles, ThemeContext } from '@grafana/ui';
import '@grafana/react-data-grid/lib/styles.css';
import 'uplot/dist/uPlot.min.css';
import { Panel } from './panel';

const COLUMNS = 24;
const CELL_HEIGHT = 30;
const GAP = 8;
const SETTLE_MILLISECONDS = 500;

window.draw = async (board, view) => {
  await initPluginTranslations('flipop');
  const { panels } = board;
  const drawn = panels.filter((panel) => panel.type !== 'row');
  const notes = Object.fromEntries(drawn.map((panel) => [panel.title, {}]));
  const root = document.getElementById('board');
  root.style.height = `${Math.max(...panels.map(({ gridPos: { y, h } }) => y + h)) * (CELL_HEIGHT + GAP) + GAP}px`;
  await new Promise((resolve) => {
    const waiting = new Set(Object.keys(notes));
    const done = (title) => {
      waiting.delete(title);
      if (!waiting.size) {
        setTimeout(resolve, SETTLE_MILLISECONDS); // what is drawn is measured, and drawn again
      }
    };
    createRoot(root).render(
      <ThemeContext.Provider value={createTheme({ colors: { mode: view.theme } })}>
        <GlobalStyles isExtensionSidebarOpen={false} hackNoBackdropBlur />
        {panels.map((panel) => (
          <Place key={panel.id} panel={panel} view={view} note={notes[panel.title]} done={() => done(panel.title)} width={root.clientWidth} />
        ))}
      </ThemeContext.Provider>
    );
  });
  for (const [title, note] of Object.entries(notes)) {
    const element = document.querySelector(`[data-panel="${CSS.escape(title)}"]`);
    note.cut = cutTexts(element);
    note.legend = [...element.querySelectorAll('[data-testid^="data-testid VizLegend series"]')].map((each) => each.textContent);
  }
  return notes;
};

function Place({ panel, view, note, done, width }) {
  const { x, y, w, h } = panel.gridPos;
  const column = (width - GAP) / COLUMNS;
  const size = { width: w * column - GAP, height: h * (CELL_HEIGHT + GAP) - GAP };
  const style = { position: 'absolute', left: GAP + x * column, top: GAP + y * (CELL_HEIGHT + GAP), ...size };
  return panel.type === 'row' ? (
    <div className="board-row" style={style}>{panel.title}</div>
  ) : (
    <div data-panel={panel.title} style={style}>
      <Panel panel={panel} view={view} note={note} done={done} {...size} />
    </div>
  );
}

/** Returns the texts of a panel that cannot be read whole, as wider than their room or outside of what is shown. */
function cutTexts(panel) {
  const leaves = [...panel.querySelectorAll('*')].filter((each) => !each.children.length && each.textContent.trim());
  return leaves
    .filter((each) => (each.scrollWidth > each.clientWidth + 1 && each.clientWidth > 0) || !isWithin(each, panel))
    .map((each) => each.textContent);
}

/** Tells whether an element is within `panel` and all of it that hides what does not fit. */
function isWithin(element, panel) {
  const box = element.getBoundingClientRect();
  for (let each = element.parentElement; panel.contains(each); each = each.parentElement) {
    const room = each.getBoundingClientRect();
    const hides = each === panel || getComputedStyle(each).overflow !== 'visible';
    if (hides && (box.bottom > room.bottom + 1 || box.right > room.right + 1)) {
      return false;
    }
  }
  return true;
}
